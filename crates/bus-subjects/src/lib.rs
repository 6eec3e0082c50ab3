#![doc = include_str!("../README.md")]

mod acl;
mod address;
mod cache;
mod decision;
mod error;
mod filter;
mod id;
mod kind;
mod names;
mod role;
mod shown;
mod subject;
#[cfg(test)]
mod subjects;
mod table;
mod token;

pub use acl::{AclPolicy, Action, Effect, Rule, RuleSet};
pub use address::Address;
pub use cache::SubjectCache;
pub use decision::Decision;
pub use error::SubjectError;
pub use filter::Filter;
pub use id::{
    AgentId, KeyName, KindName, ModuleName, RoleName, RoomId, SessionId, VerbName, WorkspaceId,
};
pub use kind::{AddressKind, Plane};
pub use names::{BucketKey, BucketName, ConsumerName, StreamName};
pub use role::{AclScope, Role};
pub use shown::Shown;
pub use subject::Subject;
pub use table::{SubjectTable, TableKey};
pub use token::Token;
