//! Asks what an agent may do, as `vakbus acl explain` does.
//!
//! ```text
//! cargo run -p bus-subjects --example subjects -- worker subscribe 'vak.*.acme.s1.request'
//! ```

use std::error::Error;
use std::io::Write;

use bus_subjects::{AclPolicy, AclScope, Address, Filter, Role, Subject};

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stdout().lock();
    match given.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => list_roles(&mut out),
        [role, action, asked] => explain(&mut out, role.parse()?, action, asked),
        _ => Err("expected: [<role> publish|subscribe <filter>]".into()),
    }
}

fn explain(
    out: &mut impl Write,
    role: Role,
    action: &str,
    asked: &str,
) -> Result<(), Box<dyn Error>> {
    let policy = AclPolicy::for_role(role, &scope()?);
    let filter = Filter::parse(asked)?;
    let decision = match action {
        "publish" => policy.explain_publish(&filter),
        "subscribe" => policy.explain_subscribe(&filter),
        _ => return Err("expected publish or subscribe".into()),
    };
    writeln!(out, "{decision}")?;
    if let Ok(address) = Subject::parse(asked).and_then(|subject| Address::parse(&subject)) {
        writeln!(out, "it is a registered address: {address:?}")?;
    }
    Ok(())
}

fn list_roles(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    for role in Role::ALL {
        writeln!(out, "{role}\n{}", AclPolicy::for_role(role, &scope()?))?;
    }
    Ok(())
}

fn scope() -> Result<AclScope, Box<dyn Error>> {
    Ok(AclScope {
        workspace: "acme".parse()?,
        agent: "a1".parse()?,
        session: Some("s1".parse()?),
        role_name: Some("coder".parse()?),
    })
}
