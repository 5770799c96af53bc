#!/usr/bin/env bash
# A taskq worker in bash and psql, one job at a time: worker.sh QUEUE ACTOR COMMAND...   TASKQ_PG_DSN says where.
# The command gets the payload on stdin; what it prints is the result; exit 65 fails for good, any other failure retries.
# It runs in its own process group, which is killed when the job is cancelled, the lease lost or the worker stopped.
set -uo pipefail
queue=$1 actor=$2 lease=30 beat=5
shift 2
files=$(mktemp -d)
stopping='' group=''
trap 'stopping=yes' TERM INT
trap 'rm -rf "$files"' EXIT

# call SQL [NAME=VALUE...]: prints the rows, fields apart by a unit separator. Fails with the SQLSTATE in $files/error.
# One statement in a connection of its own: a pooler in transaction mode may stand in between.
call() {
    local sql=$1 variable options=()
    shift
    for variable; do options+=(-v "$variable"); done
    psql "$TASKQ_PG_DSN" -XAqt -F $'\x1f' -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate -v worker="$worker" -v lease="$lease seconds" \
        "${options[@]}" 2>"$files/error" <<<"$sql"
}

lost() { grep -q TQ001 "$files/error"; }
finish() { [ -n "$group" ] && kill -"$1" -- "-$group" 2>/dev/null; }

# until_ended: beats until the command has ended; kills it when somebody cancels it or the lease is lost.
until_ended() {
    local expires=$((SECONDS + lease - beat)) due=$SECONDS rows grace=
    cancelled= gone=
    while kill -0 "$group" 2>/dev/null; do
        if ((SECONDS >= due)); then
            due=$((SECONDS + beat))
            if rows=$(call "SELECT kind, job_id, epoch FROM taskq.heartbeat(:'worker', :'lease')"); then
                expires=$((SECONDS + lease - beat))
                [[ $rows == *"cancel"$'\x1f'"$id"$'\x1f'"$epoch"* ]] && cancelled=yes
            elif lost; then
                gone=yes
            fi
        fi
        ((SECONDS > expires)) && gone=yes
        if [ -n "$gone" ] || [[ -n $grace && $SECONDS -gt $grace ]]; then
            finish KILL
        elif [ -n "$cancelled$stopping" ] && [ -z "$grace" ]; then
            finish TERM
            grace=$((SECONDS + 10))
        fi
        sleep 0.2
    done
}

while [ -z "$stopping" ]; do
    worker=$(cat /proc/sys/kernel/random/uuid)
    call "SELECT taskq.register_worker(:'worker', ARRAY[:'queue'], ARRAY[:'actor'], :'lease')" queue="$queue" actor="$actor" ||
        { cat "$files/error" >&2; sleep 1; continue; }
    while [ -z "$stopping" ]; do
        # A claim whose answer was lost: the session's end gives back what it may have taken.
        row=$(call "SELECT id, epoch, payload FROM taskq.claim(ARRAY[:'queue'], 1, :'worker', :'lease')" queue="$queue") || break
        if [ -z "$row" ]; then
            sleep 0.5
            ((SECONDS % beat)) || call "SELECT FROM taskq.heartbeat(:'worker', :'lease')" || break
            continue
        fi
        IFS=$'\x1f' read -r id epoch payload <<<"$row"
        setsid "$@" <<<"$payload" >"$files/out" 2>"$files/err" &
        group=$!
        until_ended
        wait "$group"
        code=$? outcome=succeeded
        ((code)) && outcome=${cancelled:+cancelled} && outcome=${outcome:-${stopping:+released}} && outcome=${outcome:-failed}
        [ -n "$gone" ] && break
        until call "SELECT * FROM taskq.settle(:'worker', jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
            'id', :'id', 'epoch', :epoch, 'outcome', :'outcome',
            'result', CASE WHEN :'outcome' = 'succeeded' THEN :'out'::text END,
            'final', CASE WHEN :'outcome' = 'failed' THEN :code = 65 END,
            'error', CASE WHEN :'outcome' = 'failed' THEN jsonb_build_object('class', 'exit ' || :code, 'message', :'err') END))))" \
            id="$id" epoch="$epoch" outcome="$outcome" code="$code" out="$(head -c 65536 "$files/out")" err="$(tail -c 4096 "$files/err")" ||
            lost; do sleep 1; done
    done
    call "SELECT taskq.release_worker(:'worker')"
done
