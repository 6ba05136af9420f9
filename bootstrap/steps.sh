# steps.sh - sourced by setup.sh: each step is one line with its seconds, and a failed one shows the end of its log. POSIX sh.

stop() {
    echo "setup: $*" >&2
    exit 1
}

# A terminal shows what is being done until it is done.
begin_step() {
    step=$1 began=$(date +%s)
    [ ! -t 2 ] || printf 'setup:   ...  %s' "$step" >&2
}

end_step() {
    [ ! -t 2 ] || printf '\r\033[K' >&2
    printf 'setup: %3d s  %s%s\n' $(($(date +%s) - began)) "$step" "$1" >&2
}

# run_step LOG NAME COMMAND... - its output goes to build/LOG.log.
run_step() {
    log=build/$1.log
    begin_step "$2"
    shift 2
    mkdir -p build
    if "$@" >"$log" 2>&1 </dev/null; then end_step ''; else
        end_step ', FAILED'
        tail -n 40 "$log" >&2
        stop "this failed: $step (all of its output: $log)"
    fi
}

# count_progress - passes ninja's lines on; on a terminal the last of its [done/all] is shown after the step's name.
count_progress() {
    [ -t 2 ] || { cat; return; }
    while IFS= read -r line; do
        printf '%s\n' "$line"
        case $line in \[*/*\]*) printf '\r\033[Ksetup:   ...  %s %s' "$step" "${line%%]*}]" >&2 ;; esac
    done
}
