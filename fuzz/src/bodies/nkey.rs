//! Public keys and seeds as text: one text for one key.

use bus_crypto::{PublicKey, SigningKey};

use crate::laws;

/// What is read is written as it was, is never both a key and a seed, and is never quoted.
pub fn body(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let public = laws::bounded(data, || PublicKey::parse(text));
    let seed = laws::bounded(data, || SigningKey::from_seed_text(text));
    assert!(public.is_err() || seed.is_err(), "both a public key and a seed");
    let taken = public.is_ok() || seed.is_ok();
    match public {
        Ok(key) => {
            assert_eq!(key.text(), text, "the key is another text");
            assert_eq!(PublicKey::from_bytes(key.kind(), *key.as_bytes()), key, "another key");
            assert!(text.starts_with(key.kind().letter()), "a letter of another kind");
            assert!(key.verify(data, &[0; 64]).is_err(), "a signature of zeros fits");
        }
        Err(error) => quotes_nothing(&error.to_string(), text),
    }
    match seed {
        Ok(key) => {
            assert_eq!(key.seed_text().as_str(), text, "the seed is another text");
            assert_eq!(PublicKey::parse(&key.public().text()).as_ref(), Ok(key.public()));
            let signature = key.sign(data);
            assert_eq!(key.public().verify(data, &signature), Ok(()), "its signature does not fit");
            quotes_nothing(&format!("{key:?}"), text);
        }
        Err(error) => quotes_nothing(&error.to_string(), text),
    }
    taken
}

fn quotes_nothing(said: &str, text: &str) {
    laws::error_is_brief(&said);
    // The alphabet of seeds; our own words are in lower case.
    let looks_secret = text.len() >= 16 && !text.contains(|c: char| c.is_lowercase() || c == ' ');
    assert!(!looks_secret || !said.contains(text), "a text quotes what may be a seed");
}
