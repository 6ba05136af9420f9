# Creates the missing folders of the installation with mode 0755. The commands of CMake that install files apply the umask to the folders that
# they create (also with CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS), so that umask 077 would lock out other users. Folders
# that exist keep their mode. cmake_install.cmake, which includes this script, lists the folders.
file(STRINGS "${CMAKE_PARENT_LIST_FILE}" _lines REGEX "^ *file.INSTALL DESTINATION")
list(TRANSFORM _lines REPLACE "^[^\"]*\"([^\"]*)\".*" "\\1")
list(REMOVE_DUPLICATES _lines)
foreach(_line IN LISTS _lines)
  string(CONFIGURE "$ENV{DESTDIR}${_line}" _folder) # inserts the prefix
  cmake_path(ABSOLUTE_PATH _folder)
  set(_missing)
  while(NOT EXISTS "${_folder}")
    list(PREPEND _missing "${_folder}")
    cmake_path(GET _folder PARENT_PATH _folder)
  endwhile()
  foreach(_folder IN LISTS _missing)
    file(MAKE_DIRECTORY "${_folder}")
    file(CHMOD "${_folder}" DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endforeach()
endforeach()
