/** The pages that together say who may what. */
import { useSession } from "../session.tsx"
import { Tabs } from "./forms.tsx"

const tabs = [
  ["users", "Users", "user:read"],
  ["roles", "Roles", "user:read"],
  ["matrix", "Who may what", "permission:read"],
  ["groups", "Resource groups", "permission:read"],
] as const

export const AccessTabs = ({ now }: { readonly now: string }) => {
  const { may } = useSession()
  const open = tabs.filter(([, , needs]) => may(needs))
  return <Tabs label="Users and access" now={now} tabs={open.map(([href, name]) => [href, name])} />
}
