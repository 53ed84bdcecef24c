//! Unknown names: the error says the nearest one there is.

/// ` (did you mean …?)` with the candidate nearest to `word`, or nothing when all are far.
#[must_use]
pub fn did_you_mean(word: &str, candidates: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    candidates
        .into_iter()
        .map(|c| (strsim::jaro_winkler(word, c.as_ref()), c))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, c)| format!(" (did you mean `{}`?)", c.as_ref()))
}

/// The message for a name that does not exist: the nearest one, and all there are.
#[must_use]
pub fn unknown(kind: &str, name: &str, names: &[&str]) -> String {
    format!("no {kind} `{name}`{}; there are: {}", did_you_mean(name, names), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let worlds = ["nominal", "paper"];
        assert_eq!(
            unknown("world", "papper", &worlds),
            "no world `papper` (did you mean `paper`?); there are: nominal, paper"
        );
        assert_eq!(unknown("world", "qqq", &worlds), "no world `qqq`; there are: nominal, paper");
    }
}
