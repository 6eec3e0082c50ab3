//! `vakbus request` and `vakbus reply`: calls between agents, asked and answered.

mod request;
mod respond;
mod work;

pub(crate) use self::{request::run as request, respond::run as reply};
