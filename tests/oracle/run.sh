#!/bin/sh
# Has Apache Kafka's own classes write the vectors anew. Needs Java 17, Maven, unzip and Maven Central.
#
#   ./run.sh [RELEASE]                  vectors/*.jsonl.gz and record-vectors/records.jsonl.gz in the folder $OUT
#                                       (default ..), of this release of Kafka (default 4.4.0); all or none
#   ./run.sh RELEASE MAIN [ARGUMENT...] another main class: Oracle, Records, Verify, Bench, BenchRecords. The word
#                                       SCHEMAS stands for the folder with the schemas of the release.
#
# Everything built goes to $TARGET (default ./target). README.md says which releases work.
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$here/..}
release=${1:-4.4.0}
[ $# -gt 0 ] && shift
target=${TARGET:-$here/target}/$release
mkdir -p "$target"
target=$(cd "$target" && pwd)   # Maven takes a relative path for one below pom.xml.

# The schemas come last and at once: what was interrupted is begun again.
if [ ! -d "$target/lib" ] || [ ! -d "$target/schemas" ]; then
  rm -rf "$target/lib" "$target/schemas" "$target/schemas.new"
  mvn -q -B -f "$here/pom.xml" -Dkafka="$release" dependency:copy-dependencies -DoutputDirectory="$target/lib" >&2
  for module in clients group-coordinator metadata raft share-coordinator storage transaction-coordinator; do
    mkdir -p "$target/schemas.new/$module"
    # 11: one of the patterns matches nothing.
    unzip -qjo "$target"/lib/kafka-$module-[0-9]*.jar '*message/*.json' '*metadata/*.json' \
      -d "$target/schemas.new/$module" || [ $? -eq 11 ]
  done
  mv "$target/schemas.new" "$target/schemas"
fi

# Whether Kafka's clients have the class.
has() {
  unzip -qql "$target"/lib/kafka-clients-[0-9]*.jar "org/apache/kafka/common/$1.class" > /dev/null
}

# Kafka 4.3 moved the classes of records to another package, 4.4 the utilities: a copy of the sources imports them from
# where this release has them.
moves=
has record/internal/Record || moves='s/^import org.apache.kafka.common.record.internal./import org.apache.kafka.common.record./;'
has utils/internals/BufferSupplier || moves=$moves's/^import org.apache.kafka.common.utils.internals./import org.apache.kafka.common.utils./'
rm -rf "$target/sources"
mkdir -p "$target/sources/oracle"
for source in "$here"/src/main/java/oracle/*.java; do
  sed "$moves" "$source" > "$target/sources/oracle/${source##*/}"
done

# Compiles only what the main class needs: a release may lack what another one uses.
run() {
  main=$1; shift
  javac -d "$target/classes" -encoding UTF-8 -cp "$target/lib/*" -sourcepath "$target/sources" \
    "$target/sources/oracle/$main.java" >&2
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

# Packs the documents of some files, one per line. No pipe: what fails in it would go unnoticed.
archive() {
  archive=$target/archives/$1; shift
  for file; do
    tr -d '\n' < "$file"
    echo
  done > "$archive"
  gzip -9n "$archive"
}

rm -rf "$target/vectors" "$target/record-vectors" "$target/archives"
mkdir -p "$target/archives/vectors" "$target/archives/record-vectors"

# A file per message, then an archive per module.
run Oracle --schemas SCHEMAS --out "$target/vectors" --seed 1 --random 2
for folder in "$target/vectors" "$target"/vectors/*/; do
  module=clients
  [ "$folder" = "$target/vectors" ] || module=$(basename "$folder")
  archive "vectors/$module.jsonl" "$folder"/*.json
done

# A file per topic, then one archive.
run Records --out "$target/record-vectors" --seed 1 --random 12
archive record-vectors/records.jsonl "$target"/record-vectors/*.json

# Nothing has been overwritten up to here.
mkdir -p "$out/vectors" "$out/record-vectors"
mv -f "$target"/archives/vectors/* "$out/vectors"
mv -f "$target"/archives/record-vectors/* "$out/record-vectors"
