//! A named connection: opened at its first call, opened anew after a failure.

mod connection;

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared};
use taskq_core::store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use self::connection::{AbortOnDrop, drive};
pub(crate) use self::connection::{Connection, OnNotification, Sql, Transaction, Within};
use crate::connect::{Opened, open};
use crate::dsn::Dsn;
use crate::engine::Door;
use crate::error::{self, Verdict};
use crate::mode::{Mode, Route};
use crate::role::{Role, late_settings};
use crate::schema::SchemaName;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// How long after the server has come back nobody may have tried yet: a lease must outlast that too.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One role's connection. Every method runs on the engine.
#[derive(Clone)]
pub(crate) struct Session(Arc<Inner>);

struct Inner {
    role: Role,
    dsn: Dsn,
    route: Arc<Route>,
    schema: SchemaName,
    engine: Handle,
    door: Door,
    on_notification: Option<OnNotification>,
    state: Mutex<State>,
}

type Opening = Shared<BoxFuture<'static, Result<Arc<Connection>, Arc<StoreError>>>>;

#[derive(Default)]
struct State {
    closed: bool,
    live: Option<Arc<Connection>>,
    opening: Option<Opening>,
    failures: u32,
    not_before: Option<Instant>,
}

impl Session {
    pub(crate) fn new(
        role: Role,
        (dsn, route): (&Dsn, &Arc<Route>),
        schema: &SchemaName,
        engine: &Handle,
        door: Door,
        on_notification: Option<OnNotification>,
    ) -> Self {
        Self(Arc::new(Inner {
            role,
            dsn: dsn.clone(),
            route: Arc::clone(route),
            schema: schema.clone(),
            engine: engine.clone(),
            door,
            on_notification,
            state: Mutex::default(),
        }))
    }

    /// Runs a statement and collects its rows.
    ///
    /// A call on a connection that turns out to be broken fails; the next one opens a new connection.
    pub(crate) async fn query(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.call(sql, params, None).await
    }

    /// Runs a statement on an open connection and collects its rows.
    pub(crate) async fn query_on(
        &self,
        connection: &Arc<Connection>,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.call_on(connection, sql, params, None).await
    }

    /// Runs a statement in a transaction of its own that the server gives up after a while, and collects its rows. One
    /// round trip.
    ///
    /// # Errors
    /// [`StoreError::TimedOut`] when the server gave it up.
    pub(crate) async fn query_within(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
        limit: Duration,
    ) -> Result<Vec<Row>, StoreError> {
        self.call(sql, params, Some(limit)).await
    }

    async fn call(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
        limit: Option<Duration>,
    ) -> Result<Vec<Row>, StoreError> {
        let connection = self.connection().await?;
        match self.call_on(&connection, sql, params, limit).await {
            // Nothing has run: the session that was met is one of others as well.
            Err(StoreError::Database { sqlstate, .. })
                if error::is_foreign(&sqlstate) && !connection.is_pooled() =>
            {
                self.0.route.doubt();
                self.discard(&connection);
                let connection = self.connection().await?;
                Box::pin(self.call_on(&connection, sql, params, limit)).await
            }
            result => result,
        }
    }

    async fn call_on(
        &self,
        connection: &Arc<Connection>,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
        limit: Option<Duration>,
    ) -> Result<Vec<Row>, StoreError> {
        // Boxed what is seldom, so that the rest stays small.
        match (&connection.pooled, limit) {
            (Some(start), limit) => Box::pin(self.call_pooled(connection, start, sql, params, limit)).await,
            (None, Some(limit)) => Box::pin(self.call_within(connection, sql, params, limit)).await,
            (None, None) => {
                // Behind a transaction of many jobs this may take as long as that, which has a deadline of its own.
                let _turn = connection.turn.read().await;
                self.answer(connection, self.0.role.deadline(), connection.query(sql, params)).await
            }
        }
    }

    async fn call_pooled(
        &self,
        connection: &Arc<Connection>,
        start: &str,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
        limit: Option<Duration>,
    ) -> Result<Vec<Row>, StoreError> {
        let limited = limit.map(|limit| connection.role.transaction_start(connection.major, Some(limit)));
        let start = limited.as_deref().unwrap_or(start);
        // Sent in one go, so calls of others may be under way.
        let call = connection.transaction(start, connection.query_unnamed(sql, params));
        self.answer(connection, self.0.role.deadline(), call).await
    }

    async fn call_within(
        &self,
        connection: &Arc<Connection>,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
        limit: Duration,
    ) -> Result<Vec<Row>, StoreError> {
        let _turn = connection.turn.write().await;
        self.answer(connection, self.0.role.deadline(), connection.query_within(sql, params, limit)).await
    }

    /// Starts a transaction on an open connection; other calls wait until it has ended.
    pub(crate) async fn begin(&self, connection: &Arc<Connection>) -> Result<Transaction, StoreError> {
        let turn = Arc::clone(&connection.turn).write_owned().await;
        let transaction = Transaction { connection: Arc::clone(connection), is_open: true, _turn: turn };
        self.answer(connection, self.0.role.deadline(), connection.batch("BEGIN")).await?;
        Ok(transaction)
    }

    /// Waits for what is done in a transaction, and commits or rolls it back.
    pub(crate) async fn end<T>(
        &self,
        mut transaction: Transaction,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        let connection = Arc::clone(&transaction.connection);
        let done = self.answer(&connection, self.0.role.deadline() * 2, work).await;
        let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = self.answer(&connection, self.0.role.deadline(), connection.batch(end)).await;
        transaction.is_open = ended.is_err();
        let done = done?;
        ended.map(|()| done)
    }

    /// Waits for the answer to a call, and lets a connection go that is of no more use.
    async fn answer<T>(
        &self,
        connection: &Arc<Connection>,
        deadline: Duration,
        call: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StoreError> {
        match timeout(deadline, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                if error::judge(&error) == Verdict::Broken {
                    self.discard(connection);
                }
                Err(error::of_call(error, &self.0.schema))
            }
            Err(_) => {
                // Whatever else waits on this connection waits in vain as well.
                connection.driver.abort();
                self.discard(connection);
                let role = self.0.role.as_str();
                let message = format!("no answer on the {role} connection in {deadline:?}");
                Err(StoreError::Unavailable { message, source: None })
            }
        }
    }

    /// Returns the open connection, or opens one. Callers that come meanwhile share the attempt.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, StoreError> {
        let opening = {
            let mut state = self.state();
            if state.closed {
                return Err(StoreError::Unavailable {
                    message: "the store is closed".to_owned(),
                    source: None,
                });
            }
            if let Some(live) = state.live.as_ref().filter(|live| !live.client.is_closed()) {
                return Ok(Arc::clone(live));
            }
            if let Some(opening) = &state.opening {
                opening.clone()
            } else {
                let opening = self.start_opening(state.not_before);
                state.opening = Some(opening.clone());
                opening
            }
        };
        opening.await.map_err(|error| error::again(&error))
    }

    /// Lets the connection go. Calls in flight end first; later ones fail.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.live = None;
    }

    fn start_opening(&self, not_before: Option<Instant>) -> Opening {
        let session = self.clone();
        let task = self.0.engine.spawn(async move {
            if let Some(time) = not_before {
                sleep_until(time).await;
            }
            let result = session.open().await.map_err(Arc::new);
            let mut state = session.state();
            state.opening = None;
            match &result {
                Ok(connection) => {
                    state.failures = 0;
                    state.not_before = None;
                    state.live = (!state.closed).then(|| Arc::clone(connection));
                }
                Err(error) => {
                    let doublings = state.failures.min(10);
                    state.failures = state.failures.saturating_add(1);
                    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
                    state.not_before = Some(Instant::now() + pause);
                    tracing::debug!(role = session.0.role.as_str(), %error, ?pause, "connecting failed");
                }
            }
            drop(state);
            result
        });
        async move {
            task.await.unwrap_or_else(|error| {
                let message = "the store is closed".to_owned();
                Err(Arc::new(StoreError::Unavailable { message, source: Some(error.into()) }))
            })
        }
        .boxed()
        .shared()
    }

    async fn open(&self) -> Result<Arc<Connection>, StoreError> {
        let (dsn, role, route) = (&self.0.dsn, self.0.role, &self.0.route);
        let Opened { client, connection, major, local, is_set } = open(dsn, role, route.start()).await?;
        let (end, ended) = watch::channel(false);
        let on_notification = self.0.on_notification.clone();
        let driver = self.0.engine.spawn(drive(connection, on_notification, end, self.0.door.enter()));
        let driver = AbortOnDrop(Some(driver.abort_handle()));
        let mode = async {
            let mode = route.mode(dsn, &client, local).await?;
            let settings = match mode {
                Mode::Pooled => None,
                Mode::Direct if is_set => late_settings(major).map(str::to_owned),
                Mode::Direct | Mode::Kept => Some(role.session_settings(major)),
            };
            if let Some(settings) = settings {
                let set = client.batch_execute(&settings).await;
                set.map_err(|error| error::of_call(error, &self.0.schema))?;
            }
            Ok(mode)
        };
        // A server or a proxy may fall silent here as well as anywhere else.
        let Ok(mode) = timeout(dsn.connect_deadline() * 2, mode).await else {
            let message = format!("no answer from {} after connecting", dsn.servers());
            return Err(StoreError::Unavailable { message, source: None });
        };
        let pooled = (mode? == Mode::Pooled).then(|| role.transaction_start(major, None));
        Ok(Arc::new(Connection {
            client,
            role,
            major,
            pooled,
            staging: OnceCell::new(),
            turn: Arc::default(),
            statements: Mutex::default(),
            ended,
            driver: driver.keep(),
        }))
    }

    fn discard(&self, connection: &Arc<Connection>) {
        let mut state = self.state();
        if state.live.as_ref().is_some_and(|live| Arc::ptr_eq(live, connection)) {
            state.live = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
