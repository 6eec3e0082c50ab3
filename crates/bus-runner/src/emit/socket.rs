//! The runner's socket: lets in who has the token of a run, and passes on what they emit.

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bus_core::{Endpoint, Result};
use bus_crypto::Entropy;
use bytes::BytesMut;
use data_encoding::HEXLOWER;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    frames::{Done, Frame, Hello, Kind, VERSION},
    seat::{Admitted, CONNECTIONS_MAX, Seat, Seats},
};
use crate::{EventPlace, agent::shown::ShownQueue};

/// The socket through which the commands of this process's runs emit events.
///
/// It lies in a directory of its own that only this user enters, and asks for the token that each
/// run gets alone. Both are gone when the last clone is; what a process left that was killed, the
/// next one removes.
#[derive(Debug, Clone)]
pub struct EmitSocket(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: Directory,
    seats: Arc<Seats>,
    _serving: JoinSet<()>,
}

/// A directory that is removed with the socket in it.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Held as long as this process lives, however that ends.
    _lock: File,
}

/// How many connections there may be in all.
const ALL_CONNECTIONS_MAX: usize = 1024;

/// How long a client has to say who it is.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// How long a listener that cannot accept is left alone: the process is short of descriptors.
const REST: Duration = Duration::from_millis(100);

/// The longest path that a socket can have everywhere, in bytes.
const PATH_BYTES_MAX: usize = 100;

const SOCKET_NAME: &str = "emit";

const LOCK_NAME: &str = "lock";

const NAME_PREFIX: &str = "vakbus-";

impl EmitSocket {
    /// Opens the socket in the user's runtime directory, or where temporary files are. Needs a
    /// tokio runtime.
    ///
    /// # Errors
    /// When there is no place for it; what the last one said.
    pub fn open(entropy: &dyn Entropy) -> io::Result<Self> {
        let mut random = [0; 8];
        entropy.fill(&mut random).map_err(io::Error::other)?;
        let name = format!("{NAME_PREFIX}{}", HEXLOWER.encode(&random));
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for parent in parents() {
            sweep(&parent);
            match Self::open_in(&parent.join(&name)) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(super) fn open_in(directory: &Path) -> io::Result<Self> {
        let path = directory.join(SOCKET_NAME);
        if path.as_os_str().len() > PATH_BYTES_MAX {
            return Err(io::Error::other("the path is too long for a socket"));
        }
        // It has its lock before it has its name: whoever finds it there without one that is held
        // knows that it is nobody's.
        let new = directory.with_extension("new");
        DirBuilder::new().mode(0o700).create(&new)?;
        let made = lock(&new).and_then(|lock| {
            std::fs::rename(&new, directory)?;
            Ok(lock)
        });
        let lock = made.inspect_err(|_| clear(&new))?;
        let place = Directory { path: directory.to_owned(), _lock: lock };
        let listener = UnixListener::bind(path)?;
        let seats = Arc::new(Seats::default());
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&seats)));
        Ok(Self(Arc::new(Inner { place, seats, _serving: serving })))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.place.path.join(SOCKET_NAME)
    }

    /// Lets the commands of a run emit: as `endpoint`, in `place`.
    pub(crate) fn admit(
        &self,
        endpoint: &Endpoint,
        place: EventPlace,
        shown: Arc<ShownQueue>,
    ) -> Result<Admitted> {
        self.0.seats.admit(&self.path(), endpoint, place, shown)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        clear(&self.path);
    }
}

/// Makes the lock of a directory, and holds it.
fn lock(directory: &Path) -> io::Result<File> {
    let file =
        File::options().write(true).create_new(true).mode(0o600).open(directory.join(LOCK_NAME))?;
    file.try_lock()?;
    Ok(file)
}

/// Removes a directory of ours. What cannot be removed is swept another time.
fn clear(directory: &Path) {
    let _left = std::fs::remove_file(directory.join(SOCKET_NAME));
    let _left = std::fs::remove_file(directory.join(LOCK_NAME));
    let _left = std::fs::remove_dir(directory);
}

/// Removes the directories below `parent` whose owners were killed: those whose lock nobody holds.
pub(super) fn sweep(parent: &Path) {
    // Nothing rests on it.
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.filter_map(io::Result::ok) {
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(NAME_PREFIX));
        let is_ours = digits.is_some_and(|digits| {
            digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let directory = entry.path();
        // One of another user cannot be opened, and one of an older version has no lock.
        let Ok(lock) = File::options().write(true).open(directory.join(LOCK_NAME)) else {
            continue;
        };
        if lock.try_lock().is_ok() {
            clear(&directory);
        }
    }
}

fn parents() -> impl Iterator<Item = PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute());
    runtime.into_iter().chain([std::env::temp_dir(), PathBuf::from("/tmp")])
}

/// Accepts for as long as it is polled.
async fn serve(listener: UnixListener, seats: Arc<Seats>) {
    let room = Arc::new(Semaphore::new(ALL_CONNECTIONS_MAX));
    let mut clients = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let seats = Arc::clone(&seats);
                clients.spawn(async move {
                    // A client that went away is told nothing.
                    let _gone = client(stream, &seats).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a command that wants to emit was not heard");
                sleep(REST).await;
            }
        }
        while clients.try_join_next().is_some() {}
    }
}

async fn client(mut stream: UnixStream, seats: &Seats) -> io::Result<()> {
    let mut came = BytesMut::new();
    let answer = match admitted(&mut stream, &mut came, seats).await {
        Ok((seat, name)) => {
            // Nobody has more than so many at once.
            match Arc::clone(&seat.room).try_acquire_owned() {
                Ok(_room) => converse(&mut stream, &mut came, (&seat, &name)).await,
                Err(_) => Err(format!("a run has at most {CONNECTIONS_MAX} connections")),
            }
        }
        Err(reason) => Err(reason),
    };
    let frame = match answer {
        Ok(done) => Frame::new(Kind::Done, serde_json::to_vec(&done)?),
        Err(reason) => Frame::new(Kind::Refused, reason),
    };
    stream.write_all(&frame.encode()).await?;
    stream.shutdown().await
}

/// Whom the first message of a client names, and the stream it speaks of.
async fn admitted(
    stream: &mut UnixStream,
    came: &mut BytesMut,
    seats: &Seats,
) -> Result<(Arc<Seat>, String), String> {
    let first = timeout(HELLO_WITHIN, next(stream, came)).await;
    let first = first.map_err(|_| "the client did not say who it is".to_owned())??;
    let hello = match first {
        Some(Frame { kind: Kind::Hello, bytes }) => serde_json::from_slice::<Hello>(&bytes),
        _ => return Err("the first message says who the client is".to_owned()),
    };
    let hello = hello.map_err(|_| "the first message cannot be read".to_owned())?;
    if hello.v != VERSION {
        return Err(format!("the client speaks version {}, the runner {VERSION}", hello.v));
    }
    let seat = seats.find(&hello.token);
    let seat = seat.ok_or_else(|| "the run is not known, or has ended".to_owned())?;
    Ok((seat, hello.stream))
}

/// Takes messages until the client has sent its last one.
async fn converse(
    stream: &mut UnixStream,
    came: &mut BytesMut,
    (seat, name): (&Seat, &str),
) -> Result<Done, String> {
    let gone = |error: io::Error| error.to_string();
    stream.write_all(&Frame::new(Kind::Accepted, "").encode()).await.map_err(gone)?;
    let mut done = Done::default();
    let talk = async {
        while let Some(frame) = next(stream, came).await? {
            seat.take(&frame, name).await?;
            // The reason of an end is nothing that was emitted.
            if frame.kind != Kind::End {
                done.bytes = done.bytes.saturating_add(frame.bytes.len() as u64);
            }
        }
        // All of it was taken; that some was not published is said beside that.
        done.error = seat.flush(name).await.err().map(|error| error.to_string());
        Ok(done)
    };
    tokio::select! {
        biased;
        done = talk => done,
        () = seat.ended.cancelled() => Err("the run has ended".to_owned()),
    }
}

/// The next message; none at the end of all.
async fn next(stream: &mut UnixStream, came: &mut BytesMut) -> Result<Option<Frame>, String> {
    loop {
        if let Some(frame) = Frame::decode(came).map_err(|error| error.to_string())? {
            return Ok(Some(frame));
        }
        match stream.read_buf(came).await {
            Ok(0) if came.is_empty() => return Ok(None),
            Ok(0) => return Err("the last message is cut off".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
