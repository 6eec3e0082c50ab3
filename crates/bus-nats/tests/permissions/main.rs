//! Compiled permissions on a real server: as wide as the policy, and no attack gets beyond.
#![cfg(test)]

mod attacks;
mod borrowed;
mod bounces;
mod facts;
mod headers;
mod leaf;
mod property;
mod raw;
mod roles;
mod stories;
mod world;
