/** Signs of pages and controls, drawn on a grid of 24 units in the text's colour. They say nothing to screen readers. */

const paths = {
  live: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM2 12c5.5-8 14.5-8 20 0-5.5 8-14.5 8-20 0Z",
  cameras: "M3 7h11a2 2 0 0 1 2 2v6a2 2 0 0 1-2 2H3zM16 11l5-3v8l-5-3",
  recordings: "M3 5h18v14H3zM3 15h18M7 5v14M17 5v14",
  nodes: "M9 3h6v5H9zM3 16h6v5H3zM15 16h6v5h-6zM12 8v4M6 16v-4h12v4",
  reroutes: "M3 18h4c5 0 5-12 10-12h4M18 3l3 3-3 3M3 6h4c1.800 0 3 1.400 4 3M13 15c1 1.600 2.200 3 4 3h4M18 15l3 3-3 3",
  system: "M4 4h16v7H4zM4 13h16v7H4zM8 7.5h.01M8 16.5h.01",
  dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z",
  light:
    "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5",
  auto: "M12 3a9 9 0 1 0 0 18ZM12 3a9 9 0 0 1 0 18",
  leave: "M14 4h5v16h-5M10 8l-4 4 4 4M6 12h9",
  play: "M7 4.5v15l12-7.5z",
  pause: "M8 5v14M16 5v14",
  back: "M11 5l-7 7 7 7M20 5l-7 7 7 7",
  forward: "M4 5l7 7-7 7M13 5l7 7-7 7",
  sound: "M4 9v6h4l5 4V5L8 9zM16.5 8.5a5 5 0 0 1 0 7M19 6a8.5 8.5 0 0 1 0 12",
  silent: "M4 9v6h4l5 4V5L8 9zM17 9.5l5 5M22 9.5l-5 5",
  microphone: "M12 3a3 3 0 0 0-3 3v5a3 3 0 0 0 6 0V6a3 3 0 0 0-3-3ZM6 11a6 6 0 0 0 12 0M12 17v4M8.5 21h7",
  full: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  newest: "M4 5l10 7-10 7zM18 5v14",
  still: "M4 8h3l2-3h6l2 3h3v11H4zM12 10.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6Z",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  up: "M12 19V5M6 11l6-6 6 6",
  home: "M4 11l8-7 8 7v9h-5v-6H9v6H4z",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  edit: "M4 20l1-4L16 5l3 3L8 19zM13.5 7.5l3 3",
  remove: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  help: "M9 9a3 3 0 1 1 4.2 2.8c-.8.4-1.2 1-1.2 2.2M12 17.5h.01M12 2.5a9.5 9.5 0 1 0 0 19 9.5 9.5 0 0 0 0-19Z",
  trouble: "M12 4 2.5 20h19zM12 10v4.5M12 17.3h.01",
  close: "M6 6l12 12M18 6 6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  rules: "M4 5h16M4 12h10M4 19h7M18 15v6M15 18h6",
  users:
    "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM2.5 20a6.5 6.5 0 0 1 13 0M16 4.3a3.5 3.5 0 0 1 0 6.4M18 14.3a6.5 6.5 0 0 1 3.5 5.7",
  security: "M12 3l8 3v6c0 4.5-3.2 7.7-8 9-4.8-1.3-8-4.5-8-9V6zM9 12l2.2 2.2L15.5 10",
  audit: "M6 3h9l4 4v14H6zM14 3v5h5M9 12h7M9 16h7",
  licence: "M12 3a6 6 0 1 0 0 12 6 6 0 0 0 0-12ZM8.5 14 7 21l5-2.5L17 21l-1.5-7",
  move: "M12 3v18M3 12h18M9 6l3-3 3 3M9 18l3 3 3-3M6 9l-3 3 3 3M18 9l3 3-3 3",
  grid: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  list: "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01",
  figures: "M4 20V10M10 20V4M16 20v-7M21 20H3",
  grip: "M9 6h.01M15 6h.01M9 12h.01M15 12h.01M9 18h.01M15 18h.01",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.5 2h-15zM10 21h4",
  info: "M12 2.500a9.5 9.5 0 1 0 0 19 9.5 9.5 0 0 0 0-19ZM12 11v5M12 7.800h.01",
  tick: "M5 12.500l4.5 4.500L19 7.5",
  some: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM8 12h8",
  lock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  key: "M8 10a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM11 11.5 20 3M17 6l3 3M14 8.500l2.5 2.5",
  mail: "M3 6h18v12H3zM3 7l9 7 9-7",
  download: "M12 4v11M7 11l5 5 5-5M4 20h16",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM15.5 15.5 21 21",
  group: "M3 6h6l2 3h10v10H3z",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4.5 21a7.5 7.5 0 0 1 15 0",
} as const

export type IconName = keyof typeof paths

export const Icon = ({ name }: { readonly name: IconName }) => (
  <svg
    className="icon"
    viewBox="0 0 24 24"
    fill={name === "play" ? "currentColor" : "none"}
    stroke="currentColor"
    strokeWidth="2"
    strokeLinecap="round"
    strokeLinejoin="round"
    aria-hidden="true"
  >
    <path d={paths[name]} />
  </svg>
)
