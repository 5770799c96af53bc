#!/bin/sh
# Keeps one private PostgreSQL server for the process at the other end of standard input.
#
#   sh keeper.sh BIN DIR
#
# It alone starts, stops and removes the server: one command a line on standard input, each answered on standard output
# by "ok" or "failed". When the input ends, the owner is gone, however it went: the server is stopped and DIR removed.
# Every step runs here and in turn, so an owner that dies in the middle of one leaves nothing half started behind.

bin=$1
dir=$2
data=$dir/data

# A terminal sends its interrupts to a whole group and a service manager to every process; none of them may end the
# keeper before its work is done. A write to an owner that is gone must not end it either.
trap '' HUP INT QUIT TERM PIPE

# Runs a command, its output in the log: what the server inherits must not hold the owner's pipe open.
answer() {
    if "$@" </dev/null >>"$dir/keeper.log" 2>&1; then echo ok; else echo failed; fi 2>/dev/null
}

# The password is 128 random bits of this server alone, sent over the loopback. SCRAM would hide it from nobody who could
# not also read it from its owner, and its 4,096 rounds make a connection take 100 ms instead of 13 in a client built
# without optimisation, as tests are.
create() {
    "$bin/initdb" --pgdata="$data" --username=postgres --pwfile="$dir/password" --auth-local=reject \
        --auth-host=password --encoding=UTF8 --locale=C --no-instructions "$@" &&
        echo "include '../server.conf'" >>"$data/postgresql.conf" &&
        rm "$dir/password"
}

start() {
    "$bin/pg_ctl" start --pgdata="$data" --log="$dir/server.log" --wait --timeout=60 --options="-p $1"
}

stop() {
    "$bin/pg_ctl" stop --pgdata="$data" --mode="$1" --wait --timeout=60
}

while read -r verb argument; do
    case $verb in
        create | start | stop) answer "$verb" ${argument:+"$argument"} ;;
        leave)
            echo ok
            exit 0
            ;;
    esac
done

# A test may have frozen the server. The data goes away, so there is nothing to write back first.
{ read -r postmaster <"$data/postmaster.pid" && kill -CONT "$postmaster"; } 2>/dev/null
stop immediate </dev/null >/dev/null 2>&1
rm -rf "$dir"
