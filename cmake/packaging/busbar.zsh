#compdef busbar busbar-emulated
# zsh completion of busbar's arguments. busbar --complete prints the candidates (bootstrap/cli/opts_generate.c).
_busbar() {
    local word help
    local -a options others
    while IFS=$'\t' read -r word help; do
        if [[ $word == *= ]]; then
            options+=("${word//:/\\:}:${help//:/\\:}")
        else
            others+=("${word//:/\\:}:${help//:/\\:}")
        fi
    done < <("${words[1]}" "${(@)words[2,CURRENT-1]}" "--complete=${words[CURRENT]}" 2>/dev/null)
    (( $#options + $#others )) || { _files; return }
    (( $#options )) && _describe -o option options -S ''
    (( $#others )) && _describe word others
}
_busbar "$@"
