//! A workspace from nothing: a shared secret, an account, an agent with credentials, one sealed
//! and signed message, a rotation whose new secret travels in a sealed box.

use bus_crypto::jwt::{UserClaims, decode_user, encode_user};
use bus_crypto::{
    CryptoError, Keyring, NkeyKind, SigningKey, SystemEntropy, WorkspaceSecret, XKey, creds,
    sealed_box,
};

fn main() -> Result<(), CryptoError> {
    let entropy = SystemEntropy::new();
    let now_unix_s = 1_800_000_000;

    let account = SigningKey::generate(NkeyKind::Account, &entropy)?;
    let agent = SigningKey::generate(NkeyKind::User, &entropy)?;
    let mut claims = UserClaims::new("writer", *agent.public(), *account.public(), now_unix_s);
    claims.expires_unix_s = Some(now_unix_s + 3600);
    claims.permissions.publish.allow = vec!["vak.events.shop.s1.>".to_owned()];
    let token = encode_user(&claims, &account)?;
    let file = creds::render(&token, &agent);

    let credentials = creds::parse(&file)?;
    let identity = decode_user(credentials.jwt())?;
    identity.issued_by(account.public())?;
    identity.verify_at(now_unix_s)?;

    let keyring = Keyring::new();
    keyring.add_secret("shop", "k1", WorkspaceSecret::generate(&entropy)?)?;
    let sealing = keyring.sealing_key("shop", "life-1")?;
    let mut data = b"two apples".to_vec();
    let nonce = sealing.seal_in_place(&entropy, b"order 7", &mut data)?;
    let signature = credentials.key().sign(&data);

    identity.subject.verify(&data, &signature)?;
    keyring.opening_key("shop.k1.life-1")?.open_in_place(&nonce, b"order 7", &mut data)?;
    assert_eq!(data, b"two apples");

    let next = WorkspaceSecret::generate(&entropy)?;
    let receiver = XKey::generate(&entropy)?;
    let grant = sealed_box::seal(&entropy, receiver.box_key().public(), next.to_text().as_bytes())?;
    // The box hides the secret and vouches for nobody: the account's signature does.
    let vouched = account.sign(&grant);
    account.public().verify(&grant, &vouched)?;
    let opened = sealed_box::open(receiver.box_key(), &grant)?;
    let text = std::str::from_utf8(&opened).map_err(|_| CryptoError::BadSecretText("not UTF-8"))?;
    assert!(WorkspaceSecret::from_text(text)?.is_same(&next));

    keyring.add_secret("shop", "k2", next)?;
    keyring.set_current("shop", "k2")?;
    assert_eq!(keyring.sealing_key("shop", "life-1")?.key_id(), "shop.k2.life-1");
    keyring.withdraw("shop.k1")?;
    let withdrawn = CryptoError::WithdrawnKey { key_id: "shop.k1.life-1".to_owned() };
    assert_eq!(keyring.opening_key("shop.k1.life-1").err(), Some(withdrawn));
    Ok(())
}
