//! The PostgreSQL store against a real server.

mod sql;

use taskq_testkit::{TestDatabase, shared_server};

/// TEMP
pub(crate) async fn fresh_database() -> TestDatabase {
    let t = shared_server()
        .await
        .template("temp", async |dsn: String| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            let (c, conn) = tokio_postgres::connect(&dsn, tokio_postgres::NoTls).await?;
            tokio::spawn(conn);
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
            let mut sql = String::from("CREATE SCHEMA taskq;");
            sql.push_str(&std::fs::read_to_string(root.join("migrations/01.00.00_01_pre_initial.sql"))?);
            sql.push_str("SET check_function_bodies = off;");
            let mut files: Vec<_> =
                std::fs::read_dir(root.join("functions"))?.map(|f| f.unwrap().path()).collect();
            files.sort();
            for f in files {
                sql.push_str(&std::fs::read_to_string(f)?);
            }
            c.batch_execute(&sql.replace("{schema}", "taskq")).await?;
            Ok(())
        })
        .await
        .unwrap();
    t.database().await.unwrap()
}
