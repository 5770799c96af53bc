//! The one function that computes every delay between attempts.

use super::scene::Scene;

#[tokio::test]
async fn delays_grow_to_the_cap_whatever_the_attempt() {
    let scene = Scene::new().await;
    for (call, seconds) in [
        // Base 5 s, factor 2, cap 1 h; a chance of one half is the middle of the jitter.
        ("NULL, 1, 0.5", 5.0),
        ("NULL, 2, 0.5", 10.0),
        ("NULL, 3, 0.5", 20.0),
        ("NULL, 1, 0", 4.0),
        ("NULL, 1, 1", 6.0),
        ("NULL, 10, 0.5", 2_560.0),
        ("NULL, 11, 0.5", 3_600.0),
        ("NULL, 10000, 0.5", 3_600.0),
        ("NULL, 10000, 1", 3_600.0),
        ("NULL, 2147483647, 0.5", 3_600.0),
        ("NULL, 0, 0.5", 5.0),
        ("NULL, -2147483647, 0.5", 5.0),
        (r#"'{"factor": 100, "cap": "366 days"}', 10000, 0.5"#, 366.0 * 86_400.0),
        (r#"'{"base": "0"}', 7, 1"#, 0.0),
        (r#"'{"cap": "0"}', 7, 1"#, 0.0),
        (r#"'{"base": "2 hours"}', 1, 0.5"#, 3_600.0),
        (r#"'{"base": "1 s", "factor": 1, "jitter": 0}', 9, 1"#, 1.0),
        (r#"'{"base": "1 s", "jitter": 1}', 1, 0"#, 0.0),
    ] {
        let query = format!("SELECT extract(epoch FROM taskq.retry_delay({call}))::float8");
        let delay: f64 = scene.value(&query).await;
        assert!((delay - seconds).abs() < 1e-6, "{call}: {delay}");
    }
}
