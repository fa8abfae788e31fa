//! Servers on threads of their own, what threads share, and what happens when this process ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Serves on a free port of 127.0.0.1, on a thread of its own.
pub(crate) fn serve<F: Future<Output = ()>>(accept: impl FnOnce(TcpListener) -> F + Send + 'static) -> SocketAddr {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.set_nonblocking(true).expect("a listener for the runtime");
    let address = listener.local_addr().expect("the port's number");
    std::thread::spawn(move || {
        runtime().block_on(async { accept(TcpListener::from_std(listener).expect("a listener")).await });
    });
    address
}

/// Runs a script of bash with these arguments when this process ends, for whatever reason: its end closes the pipe that a
/// small shell reads from.
pub(crate) fn when_this_process_ends(script: &str, arguments: Vec<std::ffi::OsString>) {
    let watcher = Command::new("setsid")
        .args(["bash", "-c", &format!("cat; {script}")])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bash runs");
    // Never dropped: the shell must outlive this process.
    std::mem::forget(watcher);
}
