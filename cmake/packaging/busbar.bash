# bash completion of busbar's arguments. busbar --complete prints the candidates (bootstrap/cli/opts_generate.c).
_busbar() {
    local IFS=$' \t\n' line=${COMP_LINE:0:COMP_POINT} words current found
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current=${words[-1]}
    IFS=$'\n'
    found=($("${words[0]}" "${words[@]:1:${#words[@]}-2}" "--complete=$current" 2>/dev/null | cut -f1))
    # bash replaces only the text after the last "="
    [[ $current == *=* && $COMP_WORDBREAKS == *=* ]] && found=("${found[@]#"${current%"${current##*=}"}"}")
    COMPREPLY=("${found[@]}")
    [[ ${#found[@]} == 1 && ${found[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _busbar busbar busbar-emulated
