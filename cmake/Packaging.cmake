# Installs the files other than the program, and configures the packages that cpack builds.
include(GNUInstallDirs)
set(_packaging ${CMAKE_CURRENT_LIST_DIR}/packaging)

# Manual pages, which the program generates from its option tables. A cross build cannot run the program, so it installs no
# manual pages.
if(NOT CMAKE_CROSSCOMPILING)
  set(_man ${CMAKE_BINARY_DIR}/man/man1)
  add_custom_command(OUTPUT ${_man}/busbar.1 DEPENDS busbar ${_packaging}/manual.cmake VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DBUSBAR=$<TARGET_FILE:busbar> -DFOLDER=${_man} -P ${_packaging}/manual.cmake)
  add_custom_target(manual ALL DEPENDS ${_man}/busbar.1)
  install(DIRECTORY ${_man} DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()
install(FILES ${_packaging}/busbar.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME busbar)
install(FILES ${_packaging}/busbar.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _busbar)
install(FILES ${_packaging}/busbar.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# The READMEs are installed in the same folder structure, so that the links between them work.
install(FILES CHANGES.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB _readmes RELATIVE ${CMAKE_SOURCE_DIR} README.md */README.md */*/README.md */*/*/README.md)
list(FILTER _readmes EXCLUDE REGEX "^build")
foreach(readme IN LISTS _readmes)
  get_filename_component(_folder "${readme}" DIRECTORY)
  install(FILES ${readme} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${_folder})
endforeach()
install(FILES bootstrap/mpi.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/busbar)
install(DIRECTORY profiles/ DESTINATION ${CMAKE_INSTALL_DATADIR}/busbar/profiles PATTERN "*.c" EXCLUDE)

# The emulated GPUs, unless BUSBAR_EMULATED is off.
if(TARGET emulator)
  install(TARGETS emu_cudart emu_cublaslt emu_nccl LIBRARY DESTINATION lib/busbar/emulator)
  install(TARGETS busbar_twins emu_hosts LIBRARY DESTINATION lib/busbar/emulator)
  emu_wrapper(${CMAKE_BINARY_DIR}/installed/busbar-emulated "the busbar in the folder of this file" ../lib/busbar/emulator "\"$here/$name\" ")
  install(PROGRAMS ${CMAKE_BINARY_DIR}/installed/busbar-emulated DESTINATION bin)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/installed/emulated)
  foreach(name ${BUSBAR_NCCL_TESTS})
    file(CREATE_LINK ../../../bin/busbar-emulated ${CMAKE_BINARY_DIR}/installed/emulated/${name}_perf SYMBOLIC)
    install(FILES ${CMAKE_BINARY_DIR}/installed/emulated/${name}_perf DESTINATION lib/busbar/emulated)
  endforeach()
endif()

add_custom_target(uninstall VERBATIM COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
                                              -P ${_packaging}/uninstall.cmake)

set(CPACK_GENERATOR TGZ)
find_program(DPKG dpkg)
mark_as_advanced(DPKG)
if(DPKG)
  list(APPEND CPACK_GENERATOR DEB)
endif()
set(CPACK_PACKAGE_CONTACT "the busbar developers <busbar@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "measures and predicts the communication of deep-learning training on GPU clusters")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME busbar-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
# The package depends only on the libraries of the offline tools, because Debian has no package of NCCL, and CUDA is not
# always installed as a package. If a library is missing, bench and proxy print one error line that names the library.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6, libjansson4")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin | mpich")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
