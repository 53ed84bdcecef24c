//! Requests and replies over a link that may lose either.

use std::time::Duration;

use steady_common::crtp::Packet;

use crate::error::{Error, Result};
use crate::link::Link;

/// When a request is repeated, and when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Time until a request is repeated.
    pub(crate) interval: Duration,
    /// Time without progress after which it fails.
    pub(crate) timeout: Duration,
    /// Requests in flight at once.
    pub(crate) window: usize,
}

impl Retry {
    pub(crate) const fn new(interval_ms: u64, timeout_ms: u64, window: usize) -> Self {
        Self {
            interval: Duration::from_millis(interval_ms),
            timeout: Duration::from_millis(timeout_ms),
            window,
        }
    }

    pub(crate) const fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }
}

/// Repeats a request until a reply is accepted. All other packets go to `other`.
pub(crate) fn one<T>(
    link: &mut dyn Link,
    what: &str,
    request: &Packet,
    retry: Retry,
    mut accept: impl FnMut(&Packet) -> Option<T>,
    other: &mut dyn FnMut(&Packet),
) -> Result<T> {
    let answers =
        many(link, what, 1, retry, |_| *request, |p| accept(p).map(|t| (0, t)), other, &mut |_| {})?;
    answers.into_iter().next().ok_or_else(|| no_answer(what, retry.timeout))
}

/// Sends `count` requests, several at a time, and repeats each until its reply is accepted. `accept`
/// returns the request that a reply belongs to; `progress` gets the number of replies so far.
#[allow(clippy::too_many_arguments, reason = "one loop for every bulk transfer")]
pub(crate) fn many<T>(
    link: &mut dyn Link,
    what: &str,
    count: usize,
    retry: Retry,
    request: impl Fn(usize) -> Packet,
    mut accept: impl FnMut(&Packet) -> Option<(usize, T)>,
    other: &mut dyn FnMut(&Packet),
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<T>> {
    let mut answers: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut asked: Vec<(usize, Duration)> = Vec::new();
    let (mut next, mut answered) = (0, 0);
    let mut last_progress = link.now();
    while answered < count {
        while asked.len() < retry.window.max(1) && next < count {
            link.send(&request(next))?;
            asked.push((next, link.now()));
            next += 1;
        }
        let now = link.now();
        if now.saturating_sub(last_progress) > retry.timeout {
            return Err(no_answer(what, retry.timeout));
        }
        // Here, so that other packets cannot delay it.
        for (index, at) in &mut asked {
            if *at + retry.interval <= now {
                link.send(&request(*index))?;
                *at = now;
            }
        }
        let due = asked.iter().map(|(_, at)| *at + retry.interval).min().unwrap_or(now);
        let Some(packet) = link.receive(due.saturating_sub(now))? else { continue };
        match accept(&packet) {
            // Duplicate and unexpected replies are ignored.
            Some((index, answer)) => {
                if let Some(place @ None) = answers.get_mut(index) {
                    *place = Some(answer);
                    answered += 1;
                    last_progress = link.now();
                    asked.retain(|(i, _)| *i != index);
                    progress(answered);
                }
            }
            None => other(&packet),
        }
    }
    answers.into_iter().collect::<Option<Vec<T>>>().ok_or_else(|| no_answer(what, retry.timeout))
}

fn no_answer(what: &str, waited: Duration) -> Error {
    Error::NoAnswer { what: what.to_owned(), seconds: waited.as_secs_f64(), advice: String::new() }
}
