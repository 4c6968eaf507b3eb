#!/usr/bin/env bash
# What can be known of a change in half a minute: style, import contracts, types, and tests of changed files.
# BASE=main takes all changes since main, the default those that are not committed.
set -euo pipefail
bin=$1
mapfile -t changed < <(
  git diff --name-only --diff-filter=d "${BASE:-HEAD}" -- '*.py'
  git ls-files --others --exclude-standard -- '*.py'
)
((${#changed[@]})) || { echo "no changed Python files"; exit; }
"$bin/python" -m ruff check "${changed[@]}"
"$bin/python" -m ruff format --check "${changed[@]}"
"$bin/lint-imports" &
typed=() tests=()
for file in "${changed[@]}"; do
  case $file in
    tests/*/test_*.py | tests/test_*.py) tests+=("$file") ;;
    src/* | benchmarks/* | tools/* | scripts/*) typed+=("$file") ;;
  esac
  [[ $file != src/* ]] || mapfile -O ${#tests[@]} -t tests < <(find tests -name "test_$(basename "$file")")
done
((!${#typed[@]})) || "$bin/python" -m mypy "${typed[@]}"
wait $!
((!${#tests[@]})) || "$bin/python" -m pytest -q -x -m "not slow" "${tests[@]}"
