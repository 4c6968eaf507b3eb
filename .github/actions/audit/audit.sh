#!/usr/bin/env bash
# The audit that action.yml describes; its inputs are environment variables. The exit status is that of the command.
set -uo pipefail

mkdir -p "$REPORT"
summary=$REPORT/summary.md
options=(--html "$REPORT/audit.html" --json "$REPORT/audit.json")
options+=(--markdown "$summary")
add() { # add OPTION VALUE, unless the value is empty
  [ -z "$2" ] || options+=("$1" "$2")
}
add --data "$DATA"
add --group "$GROUP"
add --layout "$LAYOUT"
add --calculator "$CALCULATOR"
add --fail-above "$FAIL_ABOVE"
add --min-agreement "$MIN_AGREEMENT"
add --tolerance "$TOLERANCE"
[ "$EFFORT" = full ] || options+=(--effort "$EFFORT")
read -r -a more <<<"$ARGUMENTS"

command=audit
[ -z "$ATOMS" ] || command=audit-potential
equitangents "$command" ${MODEL:+"$MODEL"} ${ATOMS:+"$ATOMS"} "${options[@]}" ${more[@]+"${more[@]}"}
status=$?
if [ -f "$summary" ] && [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  cat "$summary" >>"$GITHUB_STEP_SUMMARY"
fi
exit "$status"
