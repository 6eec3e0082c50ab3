//! Command line words, options and flags, taken one by one.

use std::fmt;

use anyhow::Result;

/// What is left of the command line.
#[derive(Debug)]
pub(crate) struct Args {
    words: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: impl IntoIterator<Item = String>) -> Self {
        Self { words: words.into_iter().collect() }
    }

    /// Takes the first word, whatever it looks like.
    pub(crate) fn word(&mut self) -> Option<String> {
        (!self.words.is_empty()).then(|| self.words.remove(0))
    }

    /// Takes `name` wherever it stands; says whether it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() < before
    }

    /// Takes every `name VALUE` and `name=VALUE`, in their order.
    ///
    /// # Errors
    /// A usage error when a value is missing.
    pub(crate) fn options(&mut self, name: &str) -> Result<Vec<String>> {
        let mut values = Vec::new();
        let mut rest = Vec::new();
        let mut words = std::mem::take(&mut self.words).into_iter();
        while let Some(word) = words.next() {
            if word == name {
                let value = words.next().filter(|value| !value.starts_with("--"));
                values.push(value.ok_or_else(|| UsageError::new(format!("{name} wants a value")))?);
            } else if let Some(value) =
                word.strip_prefix(name).and_then(|tail| tail.strip_prefix('='))
            {
                values.push(value.to_owned());
            } else {
                rest.push(word);
            }
        }
        self.words = rest;
        Ok(values)
    }

    /// Takes the one remaining word, if any.
    ///
    /// # Errors
    /// A usage error when options or more words are left.
    pub(crate) fn last_word(mut self) -> Result<Option<String>> {
        let word = match self.words.first() {
            Some(first) if !first.starts_with("--") => self.word(),
            _ => None,
        };
        self.end()?;
        Ok(word)
    }

    /// Takes all remaining words.
    ///
    /// # Errors
    /// A usage error when options are left.
    pub(crate) fn rest(self) -> Result<Vec<String>> {
        match self.words.iter().find(|word| word.starts_with("--")) {
            None => Ok(self.words),
            Some(word) => Err(UsageError::new(format!("did not expect `{word}`"))),
        }
    }

    /// Makes sure that nothing is left.
    ///
    /// # Errors
    /// A usage error that names the first word left.
    pub(crate) fn end(self) -> Result<()> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(UsageError::new(format!("did not expect `{word}`"))),
        }
    }
}

/// The command line could not be understood.
#[derive(Debug)]
pub(crate) struct UsageError(String);

impl UsageError {
    #[expect(clippy::new_ret_no_self, reason = "always made to be returned as an anyhow error")]
    pub(crate) fn new(text: String) -> anyhow::Error {
        anyhow::Error::new(Self(text))
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn an_option_may_be_given_many_times_in_both_forms() {
        let mut args = args("--engine mem filter --engine=disk");
        assert_eq!(args.options("--engine").unwrap(), ["mem", "disk"]);
        assert_eq!(args.last_word().unwrap().as_deref(), Some("filter"));
    }

    #[test]
    fn an_option_without_a_value_is_a_usage_error() {
        let error = args("--engine --json").options("--engine").unwrap_err();
        assert!(error.is::<UsageError>());
    }

    #[test]
    fn an_unknown_option_is_never_taken_for_a_filter() {
        assert!(args("--jsno").last_word().unwrap_err().is::<UsageError>());
    }

    #[test]
    fn a_flag_is_found_wherever_it_stands() {
        let mut args = args("filter --json");
        assert!(args.flag("--json"));
        assert!(!args.flag("--json"));
        assert_eq!(args.last_word().unwrap().as_deref(), Some("filter"));
    }

    #[test]
    fn a_second_filter_is_a_usage_error() {
        assert!(args("one two").last_word().unwrap_err().is::<UsageError>());
    }
}
