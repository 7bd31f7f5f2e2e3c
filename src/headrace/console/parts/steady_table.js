// Quasar's table, with cells that stay what they are when a page is drawn again: whoever stands on a link in it with the keyboard,
// or has marked some text, keeps that. (A template in a slot, NiceGUI's way, is a new component each time.)
//
// What a cell is, its column says: `leads` (a link, or a button, where the row has one; `says` stands before its name for whoever
// does not see it), `state` (a word with a colour), `clamped` (two lines of it). All of it is put in as text.
export default {
  template: `
    <q-table>
      <template v-slot:body-cell="cell">
        <q-td :props="cell">
          <a v-if="cell.col.leads && cell.row.link" :href="cell.row.link" @click.stop>{{ cell.value }}</a>
          <button v-else-if="cell.col.leads && cell.row.opens" type="button" class="headrace-open"
            :aria-label="cell.col.says && cell.col.says + ' ' + cell.value"
            @click.stop="$emit('open', cell.row)">{{ cell.value }}</button>
          <span v-else-if="cell.col.state && cell.value" class="headrace-state"
            :data-tone="cell.row[cell.col.name + '_tone']">{{ cell.value }}</span>
          <div v-else-if="cell.col.clamped" class="headrace-clamp">{{ cell.value }}</div>
          <template v-else>{{ cell.value }}</template>
        </q-td>
      </template>
    </q-table>
  `,
  emits: ["open"],
};
