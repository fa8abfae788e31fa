//! Load on a thread and a runtime of its own, so that it does not delay what is measured beside it more than another
//! process would.

use crate::bounded::within;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::LocalSet;

/// Longest that the load may take to end.
const END: Duration = Duration::from_secs(60);
/// How often is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A running load; [`stop`](Self::stop) ends it.
pub(crate) struct BackgroundLoad<T> {
    thread: Option<JoinHandle<T>>,
    stop: watch::Sender<bool>,
}

/// Tells a load when to end.
#[derive(Clone, Debug)]
pub(crate) struct StopSignal(watch::Receiver<bool>);

impl<T: Send + 'static> BackgroundLoad<T> {
    /// Starts a load, which ends by itself soon after it is told to.
    pub(crate) fn start<F: Future<Output = T>>(load: impl FnOnce(StopSignal) -> F + Send + 'static) -> Self {
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            LocalSet::new().block_on(&runtime, load(StopSignal(stopped)))
        });
        Self { thread: Some(thread), stop }
    }

    /// Ends the load and gives its result.
    pub(crate) async fn stop(mut self) -> T {
        self.stop.send_replace(true);
        let thread = self.thread.take().expect("it is stopped once");
        let ended = async {
            while !thread.is_finished() {
                tokio::time::sleep(LOOK).await;
            }
        };
        within(END, "the load beside the measurement ends", ended).await;
        thread.join().expect("the load beside the measurement failed; see above")
    }
}

impl StopSignal {
    pub(crate) fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends when the load is to end.
    pub(crate) async fn stopped(&mut self) {
        // An error means that nobody waits for the load any more.
        drop(self.0.wait_for(|stopped| *stopped).await);
    }
}

impl<T> Drop for BackgroundLoad<T> {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}
