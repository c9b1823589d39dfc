#!/bin/sh
# Has Apache Kafka's own classes write the vectors anew. Needs Java 17, Maven, unzip and Maven Central.
#
#   ./run.sh [RELEASE]                  ../vectors/*.jsonl.gz and ../record-vectors/records.jsonl.gz, of this release
#                                       of Kafka (default 4.4.0)
#   ./run.sh RELEASE MAIN [ARGUMENT...] another main class: Oracle, Records, Verify, Bench, BenchRecords. The word
#                                       SCHEMAS stands for the folder with the schemas of the release.
#
# Everything built goes to $TARGET (default ./target). Releases before 4.3 have their record classes in another package.
set -e
here=$(cd "$(dirname "$0")" && pwd)
release=${1:-4.4.0}
target=${TARGET:-$here/target}/$release
[ $# -gt 0 ] && shift

if [ ! -d "$target/lib" ] || [ ! -d "$target/schemas" ]; then
  mvn -q -B -f "$here/pom.xml" -Dkafka="$release" dependency:copy-dependencies -DoutputDirectory="$target/lib" >&2
  for module in clients group-coordinator metadata raft share-coordinator storage transaction-coordinator; do
    mkdir -p "$target/schemas/$module"
    # 11: one of the patterns matches nothing.
    unzip -qjo "$target"/lib/kafka-$module-[0-9]*.jar '*message/*.json' '*metadata/*.json' -d "$target/schemas/$module" ||
      [ $? -eq 11 ]
  done
fi

# Compiles only what the main class needs: other releases may lack what another one uses.
run() {
  main=$1; shift
  javac -d "$target/classes" -encoding UTF-8 -cp "$target/lib/*" -sourcepath "$here/src/main/java" \
    "$here/src/main/java/oracle/$main.java" >&2
  for argument; do
    shift
    [ "$argument" = SCHEMAS ] && argument=$target/schemas
    set -- "$@" "$argument"
  done
  java -Xshare:auto -Dkafka="$release" -cp "$target/classes:$target/lib/*" "oracle.$main" "$@"
}
if [ $# -gt 0 ]; then
  run "$@"
  exit
fi

# The documents of some files, one per line.
archive() {
  for file; do
    tr -d '\n' < "$file"
    echo
  done | gzip -9n
}

# A file per message, then an archive per module.
rm -rf "$target/vectors" "$target/record-vectors"
run Oracle --schemas SCHEMAS --out "$target/vectors" --seed 1 --random 2
for folder in "$target/vectors" "$target"/vectors/*/; do
  module=clients
  [ "$folder" = "$target/vectors" ] || module=$(basename "$folder")
  archive "$folder"/*.json > "$here/../vectors/$module.jsonl.gz"
done

# A file per topic, then one archive.
run Records --out "$target/record-vectors" --seed 1 --random 12
archive "$target"/record-vectors/*.json > "$here/../record-vectors/records.jsonl.gz"
