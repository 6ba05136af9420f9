# folders_of_libraries(VARIABLE library ...)
# Sets VARIABLE to the folders of the libraries, except for folders that the loader searches by default; without
# duplicates. INSTALL_RPATH_USE_LINK_PATH is no alternative: it omits folders inside the build folder, where setup.sh
# installs missing libraries.
function(folders_of_libraries variable)
  set(folders "")
  foreach(library ${ARGN})
    get_filename_component(folder "${library}" DIRECTORY)
    if(IS_ABSOLUTE "${folder}" AND NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
      list(APPEND folders ${folder})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(${variable} ${folders} PARENT_SCOPE)
endfunction()
