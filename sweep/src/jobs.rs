//! The job runner: jobs that may need each other's results, on a number of threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow, bail};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
}

struct Board {
    states: Vec<State>,
    failure: Option<anyhow::Error>,
}

/// Runs all jobs, each after those that it needs; of several that can begin, the first in the list does. A
/// needed job that is not in the list counts as done. After a failure, or when `stop` says so, no further one
/// begins; false means that it was stopped.
pub fn run<J: PartialEq + Sync>(
    jobs: &[J],
    threads: usize,
    needs: impl Fn(&J) -> Vec<J> + Sync,
    work: impl Fn(&J) -> Result<()> + Sync,
    stop: impl Fn() -> bool + Sync,
) -> Result<bool> {
    let needed: Vec<Vec<usize>> = jobs
        .iter()
        .map(|job| needs(job).iter().filter_map(|need| jobs.iter().position(|j| j == need)).collect())
        .collect();
    let board = Mutex::new(Board { states: vec![State::Waiting; jobs.len()], failure: None });
    let changed = Condvar::new();
    let lock = || board.lock().unwrap_or_else(PoisonError::into_inner);
    let worker = || {
        let mut now: MutexGuard<'_, Board> = lock();
        loop {
            if now.failure.is_some() || stop() {
                return;
            }
            let ready = |i: usize| {
                now.states[i] == State::Waiting && needed[i].iter().all(|n| now.states[*n] == State::Done)
            };
            let Some(next) = (0..jobs.len()).find(|i| ready(*i)) else {
                if now.states.contains(&State::Running) {
                    now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                return;
            };
            now.states[next] = State::Running;
            drop(now);
            // A panic must not leave the others waiting.
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&jobs[next])))
                .unwrap_or_else(|panic| Err(anyhow!("a job panicked: {}", words(panic.as_ref()))));
            now = lock();
            now.states[next] = State::Done;
            if let Err(error) = outcome {
                now.failure.get_or_insert(error);
            }
            changed.notify_all();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(worker);
        }
    });
    let board = board.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = board.failure {
        return Err(error);
    }
    let complete = board.states.iter().all(|s| *s == State::Done);
    if !complete && !stop() {
        bail!("jobs wait for each other");
    }
    Ok(complete)
}

/// Runs `work` for each item on a number of threads; results in the order of the items. After a failure no
/// further one begins.
pub fn map<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let numbers: Vec<usize> = (0..items.len()).collect();
    let one = |i: &usize| {
        let result = work(&items[*i])?;
        *results[*i].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        Ok(())
    };
    run(&numbers, threads.min(items.len()), |_| Vec::new(), one, || false)?;
    let results = results.into_iter().map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner));
    results.map(|r| r.context("a job has no result")).collect()
}

fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Every number needs its half.
    fn half(n: &usize) -> Vec<usize> {
        if *n > 1 { vec![n / 2] } else { Vec::new() }
    }

    #[test]
    fn every_job_runs_once_and_after_its_needs() {
        let jobs: Vec<usize> = (0..200).rev().collect();
        let done = Mutex::new(Vec::new());
        let work = |n: &usize| {
            let mut done = done.lock().unwrap();
            assert!(half(n).iter().all(|need| done.contains(need)), "{n} too early");
            done.push(*n);
            Ok(())
        };
        assert!(run(&jobs, 3, half, work, || false).unwrap());
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert_eq!(done, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn results_come_in_order_and_the_first_failure_ends_it() {
        let items: Vec<u64> = (0..100).collect();
        assert_eq!(map(3, &items, |n| Ok(n * n)).unwrap(), items.iter().map(|n| n * n).collect::<Vec<_>>());
        assert_eq!(map(2, &[] as &[u64], |_| Ok(())).unwrap(), []);
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        map(2, &items[..8], |_| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(std::time::Duration::from_millis(20));
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        })
        .unwrap();
        assert_eq!(most.into_inner(), 2, "as many at once as asked for");
        let error = map(1, &items, |n| if *n == 7 { bail!("seven") } else { Ok(*n) }).unwrap_err();
        assert_eq!(error.to_string(), "seven");
    }

    #[test]
    fn failures_panics_stops_and_circles_end_it() {
        let jobs: Vec<usize> = (0..50).collect();
        let begun = AtomicUsize::new(0);
        let fail = |n: &usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *n == 5 { bail!("five") } else { Ok(()) }
        };
        assert_eq!(run(&jobs, 1, |_| Vec::new(), fail, || false).unwrap_err().to_string(), "five");
        assert_eq!(begun.load(Ordering::Relaxed), 6, "nothing begins after a failure");
        let error = run(&jobs, 2, |_| Vec::new(), |_| panic!("broken"), || false).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        assert!(!run(&jobs, 2, |_| Vec::new(), |_| Ok(()), || true).unwrap());
        assert!(run(&[1, 2], 2, |n| vec![3 - n], |_| Ok(()), || false).is_err());
    }
}
