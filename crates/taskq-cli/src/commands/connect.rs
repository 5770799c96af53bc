//! Reaching the database.

use taskq::Client;
use taskq::ConnectOptions;
use taskq::store::PostgresStore;

use crate::config::DatabaseSettings;
use crate::exit::Failure;

/// Connects and checks the schema.
pub(super) async fn connect(database: &DatabaseSettings) -> Result<Client, Failure> {
    let options = ConnectOptions::new().schema(database.schema.clone()).mode(database.mode);
    let store = PostgresStore::connect(&database.dsn, options).await?;
    Ok(Client::new(store))
}
