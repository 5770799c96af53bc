#!/usr/bin/env python3
"""A taskq worker in Python: worker.py QUEUE...   TASKQ_PG_DSN says where; needs psycopg 3.
Handlers run in threads, get the payload and an event that asks them to stop; only the main thread talks to the database."""
import json, os, queue, signal, sys, threading, time, uuid
import psycopg
LEASE, BEAT, POLL, GRACE, SLOTS = 30, 5, 0.5, 30, 4  # seconds, and jobs at once
HANDLERS = {  # a handler that returns early because it was asked to stop raises
    "python.add": lambda payload, stop: payload["a"] + payload["b"],
    "python.wait": lambda payload, stop: 1 / 0 if stop.wait(payload["seconds"]) else "waited",
}
outcomes, stopping, connection = queue.SimpleQueue(), threading.Event(), None

def call(sql, *values):
    """Runs one statement and commits it; never a prepared one, which a transaction-mode pooler would lose."""
    global connection
    if connection is None or connection.closed:
        connection = psycopg.connect(os.environ["TASKQ_PG_DSN"], autocommit=True, prepare_threshold=None, connect_timeout=5)
    return connection.execute(sql, values).fetchall()

def run(key, actor, payload, stop):
    try:
        end = {"outcome": "succeeded", "result": HANDLERS[actor](payload, stop)}
        if len(text := json.dumps(end)) > 1_000_000 or "\\u0000" in text:
            raise ValueError("the result is too long, or has a NUL")
    except Exception as error:
        end = {"outcome": "failed", "error": {"class": type(error).__name__, "message": str(error).replace("\0", "")}}
        end = {"outcome": "cancelled"} if stop.is_set() else end
    outcomes.put(end | {"id": str(key[0]), "epoch": key[1]})

def session(queues):
    """Works from registration until the lease is lost, or the process was told to stop and its jobs have ended."""
    worker, lease, running, ended, doubt, leave = uuid.uuid4(), f"{LEASE} seconds", {}, [], False, None
    expires, beat = time.monotonic() + LEASE, time.monotonic() + BEAT
    call("SELECT taskq.register_worker(%s, %s, %s, %s)", worker, queues, list(HANDLERS), lease)
    while running or ended or not stopping.is_set():
        now = time.monotonic()
        leave = leave or (now + GRACE if stopping.is_set() else None)
        if now > min(expires - BEAT, leave or now):  # our jobs may soon be somebody else's, or they take too long
            break
        try:
            if now >= beat:
                for kind, job, epoch, _ in call("SELECT * FROM taskq.heartbeat(%s, %s)", worker, lease):
                    if kind == "cancel" and (job, epoch) in running:
                        running[job, epoch].set()
                expires, beat = now + LEASE, now + BEAT
            if ended:  # said again after an error: `repeated` is as good as `applied`
                for job, _, reason, _ in call("SELECT * FROM taskq.settle(%s, %s)", worker, json.dumps(ended)):
                    print(job, reason, flush=True)
                    running = {key: stop for key, stop in running.items() if key[0] != job}
                ended = []
            if doubt:  # a claim without an answer may have taken jobs that nobody runs: they go back
                held = call("SELECT id, epoch FROM taskq.held(%s)", worker)
                ended = [{"id": str(id), "epoch": n, "outcome": "released"} for id, n in held if (id, n) not in running]
            elif len(running) < SLOTS and not stopping.is_set():
                doubt = True
                for id, epoch, actor, payload in call("SELECT id, epoch, actor, payload FROM taskq.claim(%s, %s, %s, %s)",
                                                      queues, SLOTS - len(running), worker, lease):
                    running[id, epoch] = stop = threading.Event()
                    threading.Thread(target=run, args=((id, epoch), actor, payload, stop), daemon=True).start()
            doubt = False
            ended = ended or [outcomes.get(timeout=POLL)] + [outcomes.get() for _ in range(outcomes.qsize())]
        except queue.Empty:
            pass
        except psycopg.Error as error:
            print(error, file=sys.stderr, flush=True)
            if error.sqlstate == "TQ001":  # the lease is lost, and with it everything that runs
                break
            time.sleep(POLL)
    for stop in running.values():
        stop.set()
    if stopping.is_set():
        call("SELECT taskq.release_worker(%s)", worker)

signal.signal(signal.SIGTERM, lambda *_: stopping.set())
while not stopping.is_set():
    try:
        session(sys.argv[1:] or ["default"])
    except psycopg.Error as error:
        print(error, file=sys.stderr, flush=True)
        time.sleep(POLL)
