# steps.sh - progress output, sourced by setup.sh; POSIX sh. Prints one line with the duration of each step. If a step fails,
# prints the end of the step's log.

stop() {
    echo "setup: $*" >&2
    exit 1
}

# begin_step NAME - shows the current step, on a terminal only; end_step replaces the line.
begin_step() {
    step=$1 began=$(date +%s)
    [ ! -t 2 ] || printf 'setup:   ...  %s' "$step" >&2
}

# end_step SUFFIX - prints the line of the current step: its duration, its name and SUFFIX.
end_step() {
    [ ! -t 2 ] || printf '\r\033[K' >&2
    printf 'setup: %3d s  %s%s\n' $(($(date +%s) - began)) "$step" "$1" >&2
}

# run_step LOG NAME COMMAND... - runs the command with output to build/LOG.log.
run_step() {
    log=build/$1.log
    begin_step "$2"
    shift 2
    mkdir -p build
    if "$@" >"$log" 2>&1 </dev/null; then end_step ''; else
        end_step ', FAILED'
        tail -n 40 "$log" >&2
        stop "failed: $step (full output: $log)"
    fi
}

# count_progress - copies ninja's output from stdin to stdout; on a terminal, also shows ninja's latest counter [done/all]
# after the name of the step.
count_progress() {
    [ -t 2 ] || { cat; return; }
    while IFS= read -r line; do
        printf '%s\n' "$line"
        case $line in \[*/*\]*) printf '\r\033[Ksetup:   ...  %s %s' "$step" "${line%%]*}]" >&2 ;; esac
    done
}
