//! Hooks of ends: who holds them, and where they go on.

use std::time::Duration;

use taskq_core::model::{EventCursor, EventLevel, HookName};
use taskq_core::store::{HookHold, Setting, StoreError};
use uuid::Uuid;

use crate::scene::{HOUR, Scene, assert_invalid};

const LEASE: Duration = Duration::from_mins(10);

impl Scene<'_> {
    async fn tell_ends(&self, level: EventLevel) {
        self.operator().await.set_setting(Setting::EventLevel(level)).await.expect("a level");
    }

    async fn hold(&self, holder: Uuid, reached: Option<EventCursor>) -> Option<EventCursor> {
        self.try_hold("ends", holder, LEASE, reached).await.expect("ends are told and the lease is in bounds")
    }

    async fn give_back(&self, holder: Uuid, reached: Option<EventCursor>) -> Option<EventCursor> {
        self.try_hold("ends", holder, Duration::ZERO, reached).await.expect("it may always be given back")
    }

    async fn try_hold(
        &self,
        hook: &str,
        holder: Uuid,
        lease: Duration,
        reached: Option<EventCursor>,
    ) -> Result<Option<EventCursor>, StoreError> {
        let hook = HookName::new(hook).expect("a name");
        self.store.hold_hook(HookHold { hook, holder, lease, reached }).await
    }
}

fn behind(cursor: EventCursor, events: i64) -> EventCursor {
    EventCursor { id: cursor.id + events, ..cursor }
}

pub(crate) async fn a_new_hook_begins_now(scene: Scene<'_>) {
    scene.tell_ends(EventLevel::Ends).await;
    let before = scene.add(crate::draft::draft()).await;
    scene.cancel(&[before]).await;
    let now = scene.store.events(None, 1).await.expect("in bounds").next;
    let begun = scene.hold(Uuid::from_u128(1), None).await.expect("nobody has it");
    assert!(begun >= now, "{begun} is not behind {now}");
    assert_eq!(scene.hold(Uuid::from_u128(1), None).await, Some(begun), "it stays where it is");
}

pub(crate) async fn a_hook_is_held_by_one_until_its_lease_ends(scene: Scene<'_>) {
    scene.tell_ends(EventLevel::All).await;
    let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let begun = scene.hold(first, None).await.expect("nobody has it");
    assert_eq!(scene.hold(second, None).await, None);
    scene.advance(LEASE * 6 / 10).await;
    assert_eq!(scene.hold(first, None).await, Some(begun), "renewed");
    scene.advance(LEASE * 6 / 10).await;
    assert_eq!(scene.hold(second, None).await, None);
    scene.advance(LEASE * 6 / 10).await;
    assert_eq!(scene.hold(second, None).await, Some(begun));
    assert_eq!(scene.hold(first, None).await, None, "it is lost");
    let other = scene.try_hold("other", first, LEASE, None).await.expect("in bounds");
    assert!(other.is_some(), "each hook has a holder of its own");
}

pub(crate) async fn a_hook_goes_on_behind_what_was_dealt_with(scene: Scene<'_>) {
    scene.tell_ends(EventLevel::Ends).await;
    let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let begun = scene.hold(first, None).await.expect("nobody has it");
    let reached = behind(begun, 5);
    assert_eq!(scene.hold(first, Some(reached)).await, Some(reached));
    assert_eq!(scene.hold(first, Some(behind(begun, 3))).await, Some(reached), "never back");
    scene.advance(LEASE).await;
    assert_eq!(scene.hold(second, None).await, Some(reached));
    // What the first one says now does not count, though it was not yet said: the second deals with it again.
    assert_eq!(scene.hold(first, Some(behind(begun, 9))).await, None);
    assert_eq!(scene.give_back(first, Some(behind(begun, 9))).await, None);
    assert_eq!(scene.hold(second, None).await, Some(reached));
}

pub(crate) async fn what_a_lease_that_nobody_else_took_dealt_with_counts(scene: Scene<'_>) {
    scene.tell_ends(EventLevel::Ends).await;
    let holder = Uuid::from_u128(1);
    let begun = scene.hold(holder, None).await.expect("nobody has it");
    scene.advance(HOUR).await;
    assert_eq!(scene.hold(holder, Some(behind(begun, 2))).await, Some(behind(begun, 2)));
}

pub(crate) async fn a_hook_that_is_given_back_goes_on_at_once(scene: Scene<'_>) {
    scene.tell_ends(EventLevel::Ends).await;
    let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let begun = scene.hold(first, None).await.expect("nobody has it");
    // Also while no end is told any more.
    scene.tell_ends(EventLevel::Off).await;
    assert_eq!(scene.give_back(first, Some(behind(begun, 2))).await, Some(behind(begun, 2)));
    scene.tell_ends(EventLevel::Ends).await;
    assert_eq!(scene.hold(second, None).await, Some(behind(begun, 2)));
    assert_eq!(
        scene.give_back(Uuid::from_u128(3), None).await,
        None,
        "whoever has nothing gives nothing back"
    );
    assert_eq!(scene.hold(first, None).await, None);
}

pub(crate) async fn a_hook_is_refused_where_ends_are_not_told(scene: Scene<'_>) {
    for level in [EventLevel::Off, EventLevel::Notable] {
        scene.tell_ends(level).await;
        let refused = scene.try_hold("ends", Uuid::from_u128(1), LEASE, None).await;
        let said = refused.as_ref().expect_err("ends are not told").to_string();
        assert!(
            said.contains(&format!("event_level is \"{}\"", level.as_str())) && said.contains("\"ends\""),
            "{said}"
        );
        assert_invalid(refused, None);
    }
    assert_eq!(scene.give_back(Uuid::from_u128(1), None).await, None, "nothing was written");
    scene.tell_ends(EventLevel::Ends).await;
    for lease in [Duration::from_millis(999), Duration::from_hours(24) + Duration::from_millis(1)] {
        assert_invalid(scene.try_hold("ends", Uuid::from_u128(1), lease, None).await, None);
    }
}
