#!/bin/sh
# Checks one file of a repository: no merge conflict was left in it, and what people write by hand
# is text that ends in a line feed. Says on stderr what is wrong and exits with 1.
set -eu

file=$1

fail() {
    echo "$file: $1" >&2
    exit 1
}

[ -f "$file" ] || fail 'is not a file'
echo "$file: $(($(wc -c <"$file"))) bytes"

if LC_ALL=C grep -q -e '^<<<<<<< ' -e '^>>>>>>> ' -- "$file"; then
    fail 'holds a merge conflict'
fi

case $file in
*.rs | *.toml | *.md | *.sh)
    tr -d '\000' <"$file" | cmp -s -- - "$file" || fail 'holds NUL bytes'
    [ -z "$(tail -c 1 -- "$file")" ] || fail 'does not end in a line feed'
    ;;
esac
