# fish completion of busbar's arguments. busbar --complete prints the candidates (bootstrap/cli/opts_generate.c).
function __busbar_words
    set -l words (commandline -opc)
    $words[1] $words[2..-1] --complete=(commandline -ct) 2>/dev/null
end
complete -c busbar -a '(__busbar_words)'
complete -c busbar-emulated -a '(__busbar_words)'
