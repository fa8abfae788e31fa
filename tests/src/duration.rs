//! How long tests take, for the list of the slowest that `make test` prints.

use crate::binaries::variable;
use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

/// The file that the durations are added to, a line for each test.
const FILE: &str = "CONNECT_TEST_DURATIONS";

/// The time since a test has used the harness for the first time. Dropped when the thread of the test ends, whose name is the
/// test's.
struct Measurement(Instant);

thread_local! {
    static MEASUREMENT: Measurement = Measurement(Instant::now());
}

impl Drop for Measurement {
    fn drop(&mut self) {
        let file = variable(FILE).and_then(|path| File::options().create(true).append(true).open(path).ok());
        if let (Some(mut file), Some(test)) = (file, std::thread::current().name()) {
            let line = format!("{:7.1} s  {test}\n", self.0.elapsed().as_secs_f32());
            drop(file.write_all(line.as_bytes()));
        }
    }
}

/// Measures the test on this thread from now on.
pub(crate) fn measure() {
    MEASUREMENT.with(|_| ());
}
