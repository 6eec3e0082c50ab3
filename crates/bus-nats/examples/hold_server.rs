//! Starts a server, says where it answers, and holds it until its standard input closes; the test
//! kills this process to see that the server does not outlive it.
#![expect(clippy::print_stdout, reason = "the test reads what it prints")]

use std::{
    error::Error,
    io::{self, Read, Write},
    path::PathBuf,
};

use bus_nats::server::{NatsServer, ServerOptions, find_server};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(program), Some(dir)) = (words.next(), words.next()) else {
        return Err("expected a nats-server and a folder".into());
    };
    let server = NatsServer::start(ServerOptions::new(find_server(Some(&program))?, dir))?;
    println!("{}", server.url());
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
