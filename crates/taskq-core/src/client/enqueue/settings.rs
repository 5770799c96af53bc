//! What may be said of a job beyond its type, of one or of many at once.

/// The methods that set it, for a type with `change` and `try_change`.
macro_rules! methods {
    () => {
        /// Enqueues to another queue than the job's own.
        pub fn queue(self, queue: &str) -> Self {
            self.try_change(|job| {
                job.queue = QueueName::new(queue)?;
                Ok(())
            })
        }

        /// Lets it run no earlier than `delay` from now, by the store's clock; at most 36,600 days.
        pub fn run_in(self, delay: Duration) -> Self {
            self.change(|job| job.schedule = Schedule::After(delay))
        }

        /// Lets it run no earlier than at `time`. A time that has passed means at once.
        pub fn run_at(self, time: Timestamp) -> Self {
            self.change(|job| job.schedule = Schedule::At(time))
        }

        /// Sets its priority: within a queue, jobs with a higher one are claimed first. Default: the job's
        /// [`PRIORITY`](Job::PRIORITY).
        pub fn priority(self, priority: i16) -> Self {
            self.change(|job| job.priority = priority)
        }

        /// Sets how many attempts may be made; 1 to 32,767. Default: the job's [`MAX_ATTEMPTS`](Job::MAX_ATTEMPTS).
        pub fn max_attempts(self, attempts: i16) -> Self {
            self.change(|job| job.max_attempts = attempts)
        }

        /// Bounds how long one attempt may take: its handler is stopped then and the attempt fails. Default: the job's
        /// [`START_TO_CLOSE`](Job::START_TO_CLOSE).
        pub fn start_to_close(self, bound: Duration) -> Self {
            self.change(|job| job.start_to_close = Some(bound))
        }

        /// Sets the deadline after which no attempt starts; it must lie behind the time it is scheduled for.
        pub fn deadline(self, time: Timestamp) -> Self {
            self.change(|job| job.schedule_to_close = Some(time))
        }

        /// Sets when failed attempts are tried again. Default: the job's [`RETRY`](Job::RETRY).
        pub fn retry(self, policy: RetryPolicy) -> Self {
            self.change(|job| job.retry_policy = Some(policy))
        }

        /// Sets what is left once it has succeeded. Default: the job's [`KEEP`](Job::KEEP).
        pub fn keep(self, keep: Keep) -> Self {
            self.change(|job| job.keep = keep)
        }

        /// Adds a label for operators; at most 64, each like a name.
        pub fn tag(self, tag: impl Into<String>) -> Self {
            let tag = tag.into();
            self.change(|job| job.tags.push(tag.clone()))
        }

        /// Puts it into a cohort, such as one tenant's jobs: in a queue in
        /// [`RoundRobin`](crate::store::QueueMode::RoundRobin) mode cohorts take turns, however many jobs each has. Any other
        /// queue refuses a job with a key, since it would do nothing there.
        pub fn fairness_key(self, key: impl Into<String>) -> Self {
            let key = FairnessKey::new(key.into());
            self.try_change(|job| {
                job.fairness_key = Some(key.clone()?);
                Ok(())
            })
        }

        /// Attaches data of the caller's own, which must serialise to a JSON object of at most 64 KiB.
        pub fn metadata(self, metadata: &impl Serialize) -> Self {
            self.try_change(|job| {
                let json = Json::from_value(metadata, METADATA_LIMIT).map_err(EnqueueError::Metadata)?;
                job.metadata = Some(json);
                Ok(())
            })
        }

        /// Says whether those who wait for jobs are told. With [`Notify::None`] they are told by the handle's
        /// [`wake_token`](JobHandle::wake_token), fired after the commit, or find the job when they look next.
        pub fn notify(self, notify: Notify) -> Self {
            self.change(|job| job.notify = notify)
        }
    };
}

pub(super) use methods;
