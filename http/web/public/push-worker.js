/*
 * Shows alerts of rules that came by Web Push while no page of the dashboard is open, and opens the dashboard on a press.
 * The message is `{ popup: { title, text, rule, test }, event: { id, type, time, subject, severity } }`.
 */

const read = (data) => {
  try {
    return data.json()
  } catch {
    return {}
  }
}

self.addEventListener("push", (event) => {
  const { event: cause = {}, popup = {} } = read(event.data)
  const shown = self.registration.showNotification(popup.title ?? "Nightjar", {
    body: [popup.text, popup.rule].filter(Boolean).join("\n"),
    icon: "/nightjar.svg",
    // The same event told twice is shown once.
    tag: cause.id ?? "nightjar",
    timestamp: Date.parse(cause.time) || undefined,
    requireInteraction: cause.severity === "critical",
    data: { url: "/#/notifications" },
  })
  event.waitUntil(shown)
})

const open = async (url) => {
  const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true })
  const page = pages.find((one) => new URL(one.url).origin === self.location.origin)
  if (page === undefined) return self.clients.openWindow(url)
  await page.navigate(url)
  return page.focus()
}

self.addEventListener("notificationclick", (event) => {
  event.notification.close()
  event.waitUntil(open(event.notification.data?.url ?? "/"))
})

self.addEventListener("install", () => self.skipWaiting())
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()))
