//! Questions and answers over a link that may lose either.

use std::time::Duration;

use steady_common::crtp::Packet;

use crate::error::{Error, Result};
use crate::link::Link;

/// How long to wait and how often to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Time until a question is asked again.
    pub(crate) again: Duration,
    /// Time without any progress after which it is given up.
    pub(crate) give_up: Duration,
    /// Questions on their way at once.
    pub(crate) window: usize,
}

impl Patience {
    pub(crate) const fn new(again_ms: u64, give_up_ms: u64, window: usize) -> Self {
        Self { again: Duration::from_millis(again_ms), give_up: Duration::from_millis(give_up_ms), window }
    }

    pub(crate) const fn for_ms(self, give_up_ms: u64) -> Self {
        Self { give_up: Duration::from_millis(give_up_ms), ..self }
    }
}

/// Asks until an answer is accepted. Packets that are none go to `other`.
pub(crate) fn one<T>(
    link: &mut dyn Link,
    what: &str,
    request: &Packet,
    patience: Patience,
    mut accept: impl FnMut(&Packet) -> Option<T>,
    other: &mut dyn FnMut(&Packet),
) -> Result<T> {
    let answers =
        many(link, what, 1, patience, |_| *request, |p| accept(p).map(|t| (0, t)), other, &mut |_| {})?;
    answers.into_iter().next().ok_or_else(|| no_answer(what, patience.give_up))
}

/// Asks `count` questions, several at a time, each until its answer is accepted; `accept` tells
/// which question an answer belongs to, and `progress` hears how many are answered.
#[allow(clippy::too_many_arguments, reason = "one loop for every bulk transfer")]
pub(crate) fn many<T>(
    link: &mut dyn Link,
    what: &str,
    count: usize,
    patience: Patience,
    request: impl Fn(usize) -> Packet,
    mut accept: impl FnMut(&Packet) -> Option<(usize, T)>,
    other: &mut dyn FnMut(&Packet),
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<T>> {
    let mut answers: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut asked: Vec<(usize, Duration)> = Vec::new();
    let (mut next, mut answered) = (0, 0);
    let mut moved_on = link.now();
    while answered < count {
        while asked.len() < patience.window.max(1) && next < count {
            link.send(&request(next))?;
            asked.push((next, link.now()));
            next += 1;
        }
        let now = link.now();
        if now.saturating_sub(moved_on) > patience.give_up {
            return Err(no_answer(what, patience.give_up));
        }
        // Also while other packets keep coming.
        for (index, at) in &mut asked {
            if *at + patience.again <= now {
                link.send(&request(*index))?;
                *at = now;
            }
        }
        let due = asked.iter().map(|(_, at)| *at + patience.again).min().unwrap_or(now);
        let Some(packet) = link.receive(due.saturating_sub(now))? else { continue };
        match accept(&packet) {
            // An answer that comes twice, or to a question nobody asked, changes nothing.
            Some((index, answer)) => {
                if let Some(place @ None) = answers.get_mut(index) {
                    *place = Some(answer);
                    answered += 1;
                    moved_on = link.now();
                    asked.retain(|(i, _)| *i != index);
                    progress(answered);
                }
            }
            None => other(&packet),
        }
    }
    answers.into_iter().collect::<Option<Vec<T>>>().ok_or_else(|| no_answer(what, patience.give_up))
}

fn no_answer(what: &str, waited: Duration) -> Error {
    Error::NoAnswer { what: what.to_owned(), seconds: waited.as_secs_f64(), advice: String::new() }
}
