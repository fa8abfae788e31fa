//! Load on a thread and a runtime of its own, so that it does not delay the measured requests more than another
//! process would.

use crate::time_limit::with_timeout;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::LocalSet;

/// Maximum time that the load may take to stop.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of the checks whether it has stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running load; [`stop`](Self::stop) ends it.
pub(crate) struct BackgroundLoad<T> {
    thread: Option<JoinHandle<T>>,
    stop: watch::Sender<bool>,
}

/// Tells a load when to stop.
#[derive(Clone, Debug)]
pub(crate) struct StopSignal(watch::Receiver<bool>);

impl<T: Send + 'static> BackgroundLoad<T> {
    /// Starts a load, which must return soon after the signal to stop.
    pub(crate) fn start<F: Future<Output = T>>(load: impl FnOnce(StopSignal) -> F + Send + 'static) -> Self {
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            LocalSet::new().block_on(&runtime, load(StopSignal(stopped)))
        });
        Self { thread: Some(thread), stop }
    }

    /// Stops the load and returns its result.
    pub(crate) async fn stop(mut self) -> T {
        self.stop.send_replace(true);
        let thread = self.thread.take().expect("it is stopped once");
        let ended = async {
            while !thread.is_finished() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        with_timeout(END_TIMEOUT, "the load beside the measurement ends", ended).await;
        thread.join().expect("the load beside the measurement failed; see above")
    }
}

impl StopSignal {
    pub(crate) fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when the load must stop.
    pub(crate) async fn stopped(&mut self) {
        // An error means that the load's owner was dropped.
        drop(self.0.wait_for(|stopped| *stopped).await);
    }
}

impl<T> Drop for BackgroundLoad<T> {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}
