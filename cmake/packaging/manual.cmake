# cmake -DBUSBAR=program -DFOLDER=man1 -P manual.cmake
# Writes a page for each command, and for each word of one whose help is another (bench p2p).
file(REMOVE_RECURSE ${FOLDER})

# ask(variable words...) - what busbar prints
function(ask variable)
  execute_process(COMMAND ${BUSBAR} ${ARGN} OUTPUT_VARIABLE text ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

# words_of(variable words...) - what may follow them
function(words_of variable)
  ask(lines ${ARGN} --complete=)
  string(REGEX REPLACE "\t[^\n]*\n" ";" lines "${lines}")
  set(${variable} "${lines}" PARENT_SCOPE)
endfunction()

# write_page(words...) - under the name that stands in its heading
function(write_page)
  execute_process(COMMAND ${BUSBAR} ${ARGN} --help=man OUTPUT_VARIABLE page ERROR_QUIET)
  if(page MATCHES "^[.]TH ([a-z0-9-]+) 1")
    file(WRITE ${FOLDER}/${CMAKE_MATCH_1}.1 "${page}")
  endif()
endfunction()

write_page()
words_of(commands)
foreach(command IN LISTS commands)
  write_page(${command})
  words_of(words ${command})
  foreach(word IN LISTS words)
    write_page(${command} ${word})
  endforeach()
endforeach()
