//! A named connection: opened at its first call, opened anew after a failure.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, Shared};
use taskq_core::store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, OwnedRwLockWriteGuard, RwLock, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, CopyInSink, Notification, Row, Statement};

use crate::connect::{Driver, Opened, open};
use crate::dsn::Dsn;
use crate::engine::{Busy, Door};
use crate::error::{self, Verdict};
use crate::mode::{Mode, Route};
use crate::role::{Role, late_settings};
use crate::schema::SchemaName;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// How long after the server has come back nobody may have tried yet: a lease must outlast that too.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A statement with the types of its parameters.
#[derive(Debug)]
pub(crate) struct Sql {
    text: String,
    types: Vec<Type>,
}

impl Sql {
    pub(crate) fn new(text: String, types: &[Type]) -> Self {
        Self { text, types: types.to_vec() }
    }
}

/// Called with every notification that the connection receives.
pub(crate) type OnNotification = Arc<dyn Fn(&Notification) + Send + Sync>;

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

/// An open connection and the statements prepared on it.
pub(crate) struct Connection {
    client: Client,
    role: Role,
    major: u32,
    /// How each call begins in the pooled mode; nothing in the direct mode.
    pooled: Option<String>,
    /// Whether the session has its staging table; nothing until somebody wants to know.
    pub(crate) staging: OnceCell<bool>,
    /// Held shared by single statements, and alone by a transaction, into which none of them may get.
    turn: Arc<RwLock<()>>,
    statements: Mutex<HashMap<String, Statement>>,
    ended: watch::Receiver<bool>,
    driver: AbortHandle,
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

impl Connection {
    /// Runs statements without parameters and without answers.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.client.batch_execute(sql).await
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) {
        // The sender ends with the driver, which is the same news.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Whether any transaction may meet another session.
    pub(crate) const fn is_pooled(&self) -> bool {
        self.pooled.is_some()
    }

    async fn query(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match self.query_prepared(sql, params).await {
            // Nothing has run yet: PostgreSQL refuses before it executes.
            Err(error) if error::judge(&error) == Verdict::Stale => {
                self.statements().remove(&sql.text);
                self.query_unnamed(sql, params).await
            }
            result => result,
        }
    }

    /// As [`query`](Self::query), in a transaction with a time limit.
    async fn query_within(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
        limit: Duration,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepared(sql).await?;
        let start = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {}",
            limit.as_millis().max(1)
        );
        match self.transaction(&start, self.client.query(&statement, params)).await {
            Err(error) if error::judge(&error) == Verdict::Stale => {
                self.statements().remove(&sql.text);
                self.transaction(&start, self.query_unnamed(sql, params)).await
            }
            result => result,
        }
    }

    /// Sends a statement between the start and the end of a transaction. All of it is under way before the first answer
    /// is there, so it is whole even when nobody waits for it.
    async fn transaction(
        &self,
        start: &str,
        call: impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let (begun, rows, ended) = tokio::join!(biased; self.batch(start), call, self.batch("COMMIT"));
        begun?;
        let rows = rows?;
        ended.map(|()| rows)
    }

    async fn query_unnamed(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let typed: Vec<_> = params.iter().copied().zip(sql.types.iter().cloned()).collect();
        self.client.query_typed(&sql.text, &typed).await
    }

    async fn query_prepared(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.client.query(&self.prepared(sql).await?, params).await
    }

    async fn prepared(&self, sql: &Sql) -> Result<Statement, tokio_postgres::Error> {
        let known = self.statements().get(&sql.text).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare_typed(&sql.text, &sql.types).await?;
        self.statements().insert(sql.text.clone(), statement.clone());
        Ok(statement)
    }

    fn statements(&self) -> MutexGuard<'_, HashMap<String, Statement>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a connection unless it is kept.
struct AbortOnDrop(Option<AbortHandle>);

impl AbortOnDrop {
    fn keep(mut self) -> AbortHandle {
        // It is taken only here.
        self.0.take().expect("a connection has a driver")
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(driver) = &self.0 {
            driver.abort();
        }
    }
}

/// A connection while it is in a transaction, alone. Dropping it before its [end](Session::end) closes the connection,
/// since whatever came next would be part of it.
pub(crate) struct Transaction {
    connection: Arc<Connection>,
    is_open: bool,
    _turn: OwnedRwLockWriteGuard<()>,
}

impl Transaction {
    /// The statements in it.
    pub(crate) fn statements(&self) -> Within {
        Within(Arc::clone(&self.connection))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.is_open {
            self.connection.driver.abort();
        }
    }
}

/// Runs statements in a [`Transaction`].
pub(crate) struct Within(Arc<Connection>);

impl Within {
    /// Runs a statement and collects its rows.
    pub(crate) async fn query(
        &self,
        sql: &Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.0.query_prepared(sql, params).await
    }

    /// Closes the connection, and with it the transaction.
    pub(crate) fn close(&self) {
        self.0.driver.abort();
    }

    /// Starts a copy into a table.
    pub(crate) async fn copy_in(&self, sql: &Sql) -> Result<CopyInSink<Bytes>, tokio_postgres::Error> {
        self.0.client.copy_in(&self.0.prepared(sql).await?).await
    }
}

/// Moves a connection's messages until it ends.
async fn drive(
    mut connection: Driver,
    on_notification: Option<OnNotification>,
    end: watch::Sender<bool>,
    _busy: Option<Busy>,
) {
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(on_notification) = &on_notification {
                    on_notification(&notification);
                }
            }
            Some(Ok(AsyncMessage::Notice(notice))) => {
                tracing::debug!(severity = notice.severity(), "{}", notice.message());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection ended");
                break;
            }
            None => break,
        }
    }
    end.send_replace(true);
}
