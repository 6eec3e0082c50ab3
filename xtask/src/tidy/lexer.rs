//! Splits Rust source into code, comments and literals, so that rules look only where they mean to.

/// One line of a source file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The code, with literals and comments left out.
    pub(crate) code: String,
    /// The comments, their slashes included.
    pub(crate) comment: String,
    /// How many columns belong to literals.
    pub(crate) literal_columns: usize,
    /// Whether the line belongs to an item that is only built for tests.
    pub(crate) is_test: bool,
}

/// Splits `text` into lines; never fails, since rustc has already said what is wrong with it.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let mut lexer = Lexer { chars: text.chars().collect(), at: 0, lines: vec![Line::default()] };
    while let Some(next) = lexer.peek(0) {
        lexer.step(next);
    }
    mark_tests(&mut lexer.lines);
    lexer.lines
}

/// Says whether `word` stands in `code` with no identifier character right before or after it.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code.get(..at).and_then(|head| head.chars().next_back());
        let after = code.get(at + word.len()..).and_then(|tail| tail.chars().next());
        let ends_open = word.chars().next_back().is_some_and(is_name);
        let glued = before.is_some_and(is_name) || (ends_open && after.is_some_and(is_name));
        !glued
    })
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    lines: Vec<Line>,
}

#[derive(Clone, Copy)]
enum Part {
    Code,
    Comment,
    Literal,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Moves over one character that belongs to `part`.
    fn take(&mut self, part: Part) {
        let Some(next) = self.peek(0) else { return };
        self.at += 1;
        if next == '\n' {
            self.lines.push(Line::default());
            return;
        }
        let Some(line) = self.lines.last_mut() else {
            return;
        };
        match part {
            Part::Code => line.code.push(next),
            Part::Comment => line.comment.push(next),
            Part::Literal => line.literal_columns += 1,
        }
    }

    fn step(&mut self, next: char) {
        match (next, self.peek(1)) {
            ('/', Some('/')) => self.line_comment(),
            ('/', Some('*')) => self.block_comment(),
            ('"', _) => self.text(),
            ('\'', _) => self.quote(),
            ('r', Some('"' | '#')) if self.is_raw_prefix() => self.raw_text(),
            _ => self.take(Part::Code),
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|next| next != '\n') {
            self.take(Part::Comment);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                (Some(_), _) => {
                    self.take(Part::Comment);
                    continue;
                }
                (None, _) => return,
            }
            self.take(Part::Comment);
            self.take(Part::Comment);
            if depth == 0 {
                return;
            }
        }
    }

    fn text(&mut self) {
        self.take(Part::Literal);
        while let Some(next) = self.peek(0) {
            self.take(Part::Literal);
            match next {
                '"' => return,
                '\\' => self.take(Part::Literal),
                _ => {}
            }
        }
    }

    /// A character literal, or the tick of a lifetime.
    fn quote(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (Some('\\'), _) => {
                (0..3).for_each(|_| self.take(Part::Literal));
                while self.peek(0).is_some_and(|next| next != '\'' && next != '\n') {
                    self.take(Part::Literal);
                }
                self.take(Part::Literal);
            }
            (Some(_), Some('\'')) => (0..3).for_each(|_| self.take(Part::Literal)),
            _ => self.take(Part::Code),
        }
    }

    /// Whether the `r` here begins a raw text and is not the end of a name or a raw name.
    fn is_raw_prefix(&self) -> bool {
        let mut before = self.chars.iter().take(self.at).rev().copied();
        let glued = match before.next() {
            Some('b' | 'c') => before.next().is_some_and(is_name),
            Some(last) => is_name(last),
            None => false,
        };
        let after = self.chars.iter().skip(self.at + 1).find(|next| **next != '#');
        !glued && after == Some(&'"')
    }

    fn raw_text(&mut self) {
        self.take(Part::Literal);
        let mut hashes = 0;
        while self.peek(0) == Some('#') {
            hashes += 1;
            self.take(Part::Literal);
        }
        self.take(Part::Literal);
        while let Some(next) = self.peek(0) {
            self.take(Part::Literal);
            if next == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                (0..hashes).for_each(|_| self.take(Part::Literal));
                return;
            }
        }
    }
}

/// Marks the items under a `#[cfg(test)]`, from the attribute to the end of the item.
fn mark_tests(lines: &mut [Line]) {
    let mut waiting = false;
    let mut depth = 0_usize;
    for line in lines {
        let attribute = line.code.contains("#[cfg(test)") || line.code.contains("#[cfg(all(test");
        waiting |= attribute && depth == 0;
        line.is_test = waiting || depth > 0;
        for c in line.code.chars() {
            match c {
                '{' if waiting || depth > 0 => {
                    waiting = false;
                    depth += 1;
                }
                '}' => depth = depth.saturating_sub(1),
                ';' if depth == 0 => waiting = false,
                _ => {}
            }
        }
    }
}

fn is_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn comments_are_no_code() {
        assert_eq!(code("a // b\n/* c /* d */ e */ f"), ["a ", " f"]);
    }

    #[test]
    fn literals_are_no_code() {
        assert_eq!(
            code(r##"f("x \" // y", r#"a"b"#, b"z", '"', '\'', '\u{41}');"##),
            ["f(, , b, , , );"]
        );
    }

    #[test]
    fn a_literal_over_two_lines_stays_a_literal() {
        assert_eq!(code("f(\"todo!()\ntodo!()\");g"), ["f(", ");g"]);
    }

    #[test]
    fn a_lifetime_is_code() {
        assert_eq!(code("fn f<'a>(x: &'a str) {} // 'b"), ["fn f<'a>(x: &'a str) {} "]);
    }

    #[test]
    fn a_raw_name_and_a_name_that_ends_in_r_begin_no_text() {
        assert_eq!(code("r#type = for\"x\""), ["r#type = for"]);
    }

    #[test]
    fn an_item_under_cfg_test_is_test_code_up_to_its_end() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}";
        let marks: Vec<bool> = lines(text).iter().map(|line| line.is_test).collect();
        assert_eq!(marks, [false, true, true, true, true, false]);
    }

    #[test]
    fn tests_in_a_file_of_their_own_mark_nothing_here() {
        let marks: Vec<bool> =
            lines("#[cfg(test)]\nmod tests;\nfn a() {}").iter().map(|line| line.is_test).collect();
        assert_eq!(marks, [true, true, false]);
    }

    #[test]
    fn a_word_is_not_found_inside_another() {
        assert!(has_word("x.sleep(1)", "sleep("));
        assert!(!has_word("no_sleep(1)", "sleep("));
        assert!(has_word("#[should_panic]", "should_panic"));
        assert!(!has_word("should_panics", "should_panic"));
    }
}
