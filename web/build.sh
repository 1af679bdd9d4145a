#!/bin/sh
# Builds the pages: web/build.sh SOURCE OUTDIR. What npm installs lies in SOURCE/node_modules and is installed anew only when the
# lock file has changed, so that every later build works without a network. A source tree that cannot be written to is copied.
set -eu
mkdir -p "$2"
source=$(cd "$1" && pwd) out=$(cd "$2" && pwd)
if [ ! -w "$source" ] && ! cmp -s "$source/package-lock.json" "$source/node_modules/.installed-lock.json"; then
    mkdir -p "$out/web-source"
    cp -R "$source/src" "$source"/*.json "$source"/*.html "$source/build.mjs" "$out/web-source/"
    source=$out/web-source
fi
cd "$source"
if ! cmp -s package-lock.json node_modules/.installed-lock.json; then
    exec 9>"${TMPDIR:-/tmp}/sonde-npm-$(id -u).lock"
    flock 9
    if ! cmp -s package-lock.json node_modules/.installed-lock.json; then
        npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >"$out/npm.log" 2>&1 || {
            cat "$out/npm.log" >&2
            echo "web: npm could not install what the page is built with (the first build needs the npm registry)" >&2
            exit 1
        }
        cp package-lock.json node_modules/.installed-lock.json
    fi
    flock -u 9
    exec 9>&-
fi
exec node build.mjs "$out"
