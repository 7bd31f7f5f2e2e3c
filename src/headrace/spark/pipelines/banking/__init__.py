"""A bank: balances, fraud, compliance, a dashboard.

events      what happens: customers and their transactions, with duplicates, late ones and fraud woven in
world       the cities, shops and names they are made of
messages    the topics and the fields of their events

balances    bank.transactions → bank.balances
fraud       bank.transactions, bank.customers → bank.alerts;  suspicion: its rules;  watch: its state
dashboard   bank.transactions → bank.dashboard;  picture: what it looks like
compliance  a past period of bank.transactions → a report;  report: the file
"""
