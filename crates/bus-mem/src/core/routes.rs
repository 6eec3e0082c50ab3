//! Remembers where the messages of a subject go, so that matching is done once a subject.

use std::collections::HashMap;

use bus_subjects::Subject;
use foldhash::fast::RandomState;

/// Answers of the tables of filters, until one of those changes.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Indices into `routes`.
    known: HashMap<Subject, usize, RandomState>,
    routes: Vec<Route>,
    /// The subject that was asked for last: often it is asked for again.
    last: Option<(Subject, usize)>,
}

/// Where the messages of one subject go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// The index of the stream that keeps them.
    pub(crate) stream: usize,
    /// The indices of its consumers that read them.
    pub(crate) consumers: Box<[usize]>,
}

impl Routes {
    /// The route of `subject`, found by `find` when it is not known yet; `None` when no stream
    /// keeps it, which is not remembered.
    pub(crate) fn get(
        &mut self,
        subject: &Subject,
        find: impl FnOnce() -> Option<Route>,
    ) -> Option<&Route> {
        let index = match &self.last {
            Some((last, index)) if last == subject => *index,
            _ => self.look_up(subject, find)?,
        };
        self.routes.get(index)
    }

    /// Forgets everything: a stream or consumer came or went.
    pub(crate) fn clear(&mut self) {
        self.known.clear();
        self.routes.clear();
        self.last = None;
    }

    fn look_up(
        &mut self,
        subject: &Subject,
        find: impl FnOnce() -> Option<Route>,
    ) -> Option<usize> {
        let index = match self.known.get(subject) {
            Some(&index) => index,
            None => {
                let route = find()?;
                if self.routes.len() >= SUBJECTS_MAX {
                    self.clear();
                }
                self.known.insert(subject.clone(), self.routes.len());
                self.routes.push(route);
                self.routes.len() - 1
            }
        };
        self.last = Some((subject.clone(), index));
        Some(index)
    }
}

/// Subjects remembered at most.
const SUBJECTS_MAX: usize = 16_384;
