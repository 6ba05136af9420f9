# cmake -DOUT=file.c "-DFILES=a.json;b.json" -P EmbedTexts.cmake
# Writes a C file with a table of the contents of FILES. A file is identified by the name of its folder and by its own name
# without extension.
set(arrays "")
set(rows "")
set(i 0)
foreach(file IN LISTS FILES)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  get_filename_component(name ${file} NAME_WE)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(kind ${folder} NAME)
  string(APPEND arrays "static const unsigned char text_${i}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${kind}\", \"${name}\", (const char *)text_${i}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUT} "/* Generated from profiles/ by cmake/EmbedTexts.cmake. */\n#include \"proxies/form/models/profile.h\"\n\n${arrays}
const struct bb_profile_text bb_profile_texts[] = {\n${rows}    {NULL, NULL, NULL},\n};\n")
