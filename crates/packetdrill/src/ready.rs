//! `epoll`: sets of descriptors, level- and edge-triggered.

use crate::sockets::{Errno, FIRST};
use crate::world::World;

/// Descriptors of sets begin here, behind those of sockets.
const FIRST_SET: i32 = FIRST + (1 << 16);

/// One descriptor in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    descriptor: i32,
    events: u32,
    data: u64,
    /// What had happened when it was told of last: counts of the socket, and what was ready.
    told: Option<(u64, u64, u32)>,
    is_disabled: bool,
}

/// All sets.
#[derive(Debug, Default)]
pub struct Sets {
    sets: Vec<Vec<Watched>>,
}

impl Sets {
    /// A new set's descriptor.
    pub fn insert(&mut self) -> i32 {
        self.sets.push(Vec::new());
        FIRST_SET + self.sets.len() as i32 - 1
    }

    fn get(&mut self, descriptor: i32) -> Result<&mut Vec<Watched>, Errno> {
        let number =
            usize::try_from(descriptor.wrapping_sub(FIRST_SET)).map_err(|_| Errno::BADF)?;
        self.sets.get_mut(number).ok_or(Errno::BADF)
    }

    /// `epoll_ctl`.
    pub fn control(
        &mut self,
        set: i32,
        operation: i32,
        descriptor: i32,
        event: Option<(u32, u64)>,
    ) -> Result<(), Errno> {
        let set = self.get(set)?;
        let place = set.iter().position(|watched| watched.descriptor == descriptor);
        match (operation, place, event) {
            (libc::EPOLL_CTL_ADD, None, Some((events, data))) => {
                set.push(Watched { descriptor, events, data, told: None, is_disabled: false });
            }
            (libc::EPOLL_CTL_MOD, Some(place), Some((events, data))) => {
                if let Some(watched) = set.get_mut(place) {
                    *watched = Watched { descriptor, events, data, told: None, is_disabled: false };
                }
            }
            (libc::EPOLL_CTL_DEL, Some(place), _) => {
                set.remove(place);
            }
            (libc::EPOLL_CTL_ADD, Some(_), _) => return Err(Errno(libc::EEXIST)),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None, _) => {
                return Err(Errno(libc::ENOENT));
            }
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }
}

impl World {
    /// `epoll_wait`: what is ready now, as events and the words that belong to them; `EAGAIN` when nothing is.
    pub fn ready(&mut self, set: i32, most: usize) -> Result<Vec<(u32, u64)>, Errno> {
        let mut watched = self.sets.get(set)?.clone();
        let mut found = Vec::new();
        for it in watched.iter_mut().filter(|it| !it.is_disabled) {
            let asked = it.events & 0xffff;
            let always = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
            let ready = self.poll(it.descriptor, asked as i16) as u16;
            let ready = u32::from(ready) & (asked | always);
            let number = self.sockets.number(it.descriptor).ok();
            let news = number.and_then(|number| self.sockets.get(number));
            let news = news.map_or((0, 0), |socket| (socket.read_news, socket.write_news));
            if ready == 0 || found.len() >= most {
                continue;
            }
            if it.events & libc::EPOLLET as u32 != 0 {
                // Only what happened since, of the kind that is asked for.
                let (read, write) = news;
                let is_new = it.told.is_none_or(|(told_read, told_write, _)| {
                    asked & libc::EPOLLIN as u32 != 0 && read != told_read
                        || asked & libc::EPOLLOUT as u32 != 0 && write != told_write
                });
                if !is_new {
                    continue;
                }
                it.told = Some((read, write, ready));
            }
            it.is_disabled = it.events & libc::EPOLLONESHOT as u32 != 0;
            found.push((ready, it.data));
        }
        *self.sets.get(set)? = watched;
        if found.is_empty() { Err(Errno::AGAIN) } else { Ok(found) }
    }
}
