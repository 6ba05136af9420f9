# cmake -DBUSBAR=program -DFOLDER=man1 -P manual.cmake
# Writes a manual page for busbar, for each command, and for each subcommand with its own help (bench p2p).
file(REMOVE_RECURSE ${FOLDER})

# ask(variable arguments...) - sets the variable to the output of busbar
function(ask variable)
  execute_process(COMMAND ${BUSBAR} ${ARGN} OUTPUT_VARIABLE text ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

# words_of(variable arguments...) - sets the variable to the words that may follow the arguments
function(words_of variable)
  ask(lines ${ARGN} --complete=)
  string(REGEX REPLACE "\t[^\n]*\n" ";" lines "${lines}")
  set(${variable} "${lines}" PARENT_SCOPE)
endfunction()

# write_page(arguments...) - writes the page to a file with the name in the page's title line
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
