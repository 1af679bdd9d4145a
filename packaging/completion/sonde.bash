# Completion of sonde for bash. Subcommands and flags are read from `sonde --help` and `sonde SUBCOMMAND --help`, so they are always current.
# shellcheck shell=bash

_sonde() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} sonde=${COMP_WORDS[0]} kind i
    local -a verb=("${COMP_WORDS[1]}") verbs
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$("$sonde" --help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p') --help --version" -- "$word")
        return
    fi
    # Some subcommands have subcommands of their own.
    mapfile -t verbs < <("$sonde" "${verb[0]}" --help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p')
    if ((${#verbs[@]})); then
        if ((COMP_CWORD == 2)); then
            mapfile -t COMPREPLY < <(compgen -W "${verbs[*]} --help" -- "$word")
            return
        fi
        verb+=("${COMP_WORDS[2]}")
    fi
    # After `--` comes the command to record.
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            declare -F _command_offset >/dev/null && _command_offset $((i + 1))
            return
        fi
    done
    kind=$("$sonde" "${verb[@]}" --help 2>/dev/null | sed -n "s/^  .*${before//[^-a-zA-Z0-9]/} \?\([A-Z][A-Z:=.]*\)  .*/\1/p; s/^  ${before//[^-a-zA-Z0-9]/}, --[a-z-]* \([A-Z][A-Z:=.]*\) .*/\1/p" | head -n 1)
    [[ $before == -* ]] || kind=
    case $kind in
        FILE) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
        PID) mapfile -t COMPREPLY < <(compgen -W "$(cd /proc && echo [0-9]*)" -- "$word") ;;
        NAME) mapfile -t COMPREPLY < <(compgen -W "$(cat /proc/[0-9]*/comm 2>/dev/null | sort -u)" -- "$word") ;;
        EVENT) mapfile -t COMPREPLY < <(compgen -W "$("$sonde" "${verb[@]}" --help 2>/dev/null | sed -n '/^Events:/,/\.$/{s/^Events://;s/[.,]/ /g;s/:[A-Z\/][^ ]*/:/g;p}')" -- "$word") ;;
        '') mapfile -t COMPREPLY < <(compgen -W "$("$sonde" "${verb[@]}" --help 2>/dev/null | sed -n "s/^ *\(-[a-zA-Z], \)\{0,1\}\(--[a-z-]*\).*/\2/p")" -- "$word") ;;
    esac
}
complete -o filenames -o bashdefault -F _sonde sonde
