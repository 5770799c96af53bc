//! The server goes away under load, in every way, and comes back.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::time::{Duration, Instant};

use taskq_testkit::{Shutdown, Signal, wait_until};

use crate::crew::{Mate, WITHIN};
use crate::load::Load;
use crate::scene::{Scene, fact, ms, short};

const WORKERS: usize = 2;

/// What happens to the server.
#[derive(Clone, Copy)]
enum Fault {
    Restarted(Shutdown),
    /// All sessions are ended, this often.
    Terminated(u32),
    Stopped(Duration),
    /// It is a standby, which only reads, until it is promoted.
    ReadOnly(Duration),
}

/// What was counted so far.
#[derive(Clone, Copy)]
struct Counts {
    accepted: u64,
    repeated: u64,
    /// Attempts that began, beyond the first of each job.
    again: usize,
    lost_sessions: usize,
    crashed: i64,
    released: i64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a scenario for `cargo xtask soak`"]
async fn a_server_that_goes_away() {
    let seconds = |in_short, in_full| Duration::from_secs(if short() { in_short } else { in_full });
    let lease = seconds(6, 30);
    let scene = Scene::new().await;
    let mut mates = Vec::new();
    for _ in 0..WORKERS {
        let mut member = scene.member(lease);
        member.slots = 50;
        mates.push(member.start().await);
    }
    let load = Load::start(scene.taskq().await);
    let faults = [
        ("restarted fast", Fault::Restarted(Shutdown::Fast)),
        ("restarted immediately", Fault::Restarted(Shutdown::Immediate)),
        ("every backend terminated, 5 times", Fault::Terminated(5)),
        ("read-only for a while", Fault::ReadOnly(seconds(2, 10))),
        ("stopped for a while", Fault::Stopped(seconds(2, 20))),
        ("stopped for long", Fault::Stopped(seconds(12, 60))),
    ];
    for (name, fault) in faults {
        let enough = load.accepted() + 200;
        wait_until("the load", WITHIN, async || load.accepted() >= enough).await;
        let before = count(&scene, &load, &mates).await;
        let begun = Instant::now();
        strike(&scene, fault).await;
        let away = begun.elapsed();

        let next = load.accepted();
        wait_until("the next enqueue", WITHIN, async || load.accepted() > next).await;
        let enqueues_after = begun.elapsed().saturating_sub(away);
        // Jobs keep coming: those that were there are looked at.
        let unfinished = format!(
            "SELECT count(*) FROM taskq.jobs WHERE finished_at IS NULL AND created_at <= '{}'",
            now(&scene).await
        );
        wait_until("the end of what was enqueued", WITHIN * 2, async || scene.number(&unfinished).await == 0)
            .await;
        let settled_after = begun.elapsed().saturating_sub(away);
        for mate in &mut mates {
            mate.process.signal(Signal::CONT).expect("no worker process dies");
        }
        let after = count(&scene, &load, &mates).await;
        let (lost, again) = (after.lost_sessions - before.lost_sessions, after.again - before.again);
        let given_back = after.released - before.released;
        let crashed = after.crashed - before.crashed;
        fact(
            name,
            format!(
                "away {} ms, enqueues again after {} ms, all of before finished after {} ms; {} jobs came, {} calls \
                 repeated by their caller; sessions lost {lost}, attempts given back {given_back}, crashed {crashed}, \
                 run again {again}",
                ms(away),
                ms(enqueues_after),
                ms(settled_after),
                after.accepted - before.accepted,
                after.repeated - before.repeated,
            ),
        );
        assert!(
            lost > 0 || (again == 0 && crashed == 0),
            "{name}: nothing runs twice unless a lease was lost"
        );
    }

    let enqueued = load.stop().await;
    scene.all_ended(WITHIN * 2).await;
    let (mut stale, mut unsettled) = (0, 0);
    for mate in mates {
        let ended = mate.stop().await;
        // An outcome of a session that was lost could not be recorded, which the exit code tells.
        assert_eq!(ended.code, Some(i32::from(ended.count("unsettled") > 0)), "{:#?}", ended.output);
        stale += ended.count("stale");
        unsettled += ended.count("unsettled");
    }
    fact("stale outcomes, and such as could not be settled", format!("{stale} and {unsettled}"));
    let jobs = scene.number("SELECT count(*) FROM taskq.jobs").await.unsigned_abs();
    assert_eq!(jobs, enqueued.len() as u64, "each enqueue wrote one job, however often it was repeated");
    assert_eq!(enqueued.iter().collect::<HashSet<_>>().len(), enqueued.len());
    assert_eq!(scene.number("SELECT count(*) FROM taskq.jobs WHERE status <> 'succeeded'").await, 0);
    scene.check(&enqueued).await;
}

async fn strike(scene: &Scene, fault: Fault) {
    match fault {
        Fault::Restarted(shutdown) => scene.server.restart(shutdown).await.unwrap(),
        Fault::Terminated(times) => {
            for _ in 0..times {
                scene.server.cluster().terminate_backends("soak").await.unwrap();
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
        Fault::Stopped(duration) => {
            scene.server.halt(Shutdown::Fast).await.unwrap();
            tokio::time::sleep(duration).await;
            scene.server.resume().await.unwrap();
        }
        Fault::ReadOnly(duration) => {
            scene.server.halt(Shutdown::Fast).await.unwrap();
            let data = scene.server.data_dir();
            let signal = data.join("standby.signal");
            fs::write(&signal, "").unwrap();
            let owner = fs::metadata(&data).unwrap();
            chown(&signal, Some(owner.uid()), Some(owner.gid())).unwrap();
            scene.server.resume().await.unwrap();
            let admin = scene.admin().await;
            let standby: bool = admin.query_one("SELECT pg_is_in_recovery()", &[]).await.unwrap().get(0);
            assert!(standby, "it only reads");
            tokio::time::sleep(duration).await;
            let promoted: bool = admin.query_one("SELECT pg_promote()", &[]).await.unwrap().get(0);
            assert!(promoted, "it writes again");
        }
    }
}

async fn now(scene: &Scene) -> String {
    scene.admin().await.query_one("SELECT clock_timestamp()::text", &[]).await.unwrap().get(0)
}

async fn count(scene: &Scene, load: &Load, mates: &[Mate]) -> Counts {
    let attempts = async |outcome: &str| {
        scene.number(&format!("SELECT count(*) FROM taskq.job_attempts WHERE outcome = '{outcome}'")).await
    };
    let starts = scene.starts();
    let lost = |mate: &Mate| {
        mate.process.stdout().iter().filter(|line| line.contains("the worker's lease is lost")).count()
    };
    Counts {
        accepted: load.accepted(),
        repeated: load.repeated(),
        again: starts.len() - starts.iter().collect::<HashSet<_>>().len(),
        lost_sessions: mates.iter().map(lost).sum(),
        crashed: attempts("crashed").await,
        released: attempts("released").await,
    }
}
